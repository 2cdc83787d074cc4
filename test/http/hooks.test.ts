import { createServer } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import express from 'express'
import Koa from 'koa'
import { describe, expect, it } from 'vitest'
import { idempotency as onExpress } from '../../src/entry/express.ts'
import { idempotency as onFetch } from '../../src/entry/fetch.ts'
import { idempotency as onKoa } from '../../src/entry/koa.ts'
import { webhook } from '../../src/entry/node.ts'
import { Client } from '../../src/testing/http-contract/client.ts'
import { worldOfEachTest } from './world-of-each-test.ts'
import { effect, listen, type QueryTx } from './world.ts'

const OPTIONS = { scope: 'global', deadline: '600ms' } as const

function post(key: string, body: string | null = '{"a":1}', headers: Record<string, string> = {}): Request {
  const all = { 'idempotency-key': key, ...(body === null ? {} : { 'content-type': 'application/json' }), ...headers }
  return new Request('http://x/orders', { method: 'POST', headers: all, body })
}

describe('what hooks and hosts say', () => {
  const place = worldOfEachTest()

  it.each([
    [
      'a header that no header can be',
      { status: 403, headers: [['x-why', 'no\r\nset-cookie: a=1']] as [string, string][] },
    ],
    ['a status that is none', { status: 42 }],
  ])('an answer of onReplay with %s is one 5xx on Koa', async (_name, refusal) => {
    const app = new Koa()
    app.silent = true
    app.use(onKoa(place.world.once, { ...OPTIONS, onReplay: () => refusal })())
    app.use(async (ctx) => {
      await effect((ctx.state['once'] as { tx: QueryTx }).tx, 'k')
      ctx.body = 'made'
    })
    place.started = await listen(createServer((req, res) => void app.callback()(req, res)))
    const client = new Client(place.started.base)
    expect((await client.send({ key: 'k' })).status).toBe(200)
    const seen = await Promise.race([client.send({ key: 'k' }), sleep(2000).then(() => ({ status: 0 }))])
    expect(seen.status).toBe(500)
  })

  it('a handler that goes on after the deadline adds no cookie, on Koa', async () => {
    const app = new Koa()
    app.silent = true
    app.use(async (_ctx, next) => {
      await next()
      await sleep(400)
    })
    app.use(onKoa(place.world.once, { scope: 'global', deadline: '300ms' })())
    app.use(async (ctx) => {
      await sleep(500)
      ctx.cookies.set('session', 'secret')
      ctx.body = 'made'
    })
    place.started = await listen(createServer((req, res) => void app.callback()(req, res)))
    const seen = await new Client(place.started.base).send({ key: 'k' })
    expect([seen.status, seen.headers.getSetCookie()]).toEqual([503, []])
    await sleep(500)
  })

  it('a redirect that is thrown inside commit commits', async () => {
    const idempotent = onFetch(place.world.once, OPTIONS)
    const POST = idempotent({ lease: '5s' }, async (_request, { commit }) =>
      commit(async ({ tx, key }) => {
        await effect(tx, key)
        throw new Response(null, { status: 303, headers: { location: '/done' } })
      }),
    )
    for (let n = 0; n < 2; n++) {
      const seen = await POST(post('k'))
      expect([seen.status, seen.headers.get('location')]).toEqual([303, '/done'])
    }
    expect(await place.world.effects('k')).toBe(1)
  })

  it('a redirect of Next that is thrown inside commit commits', async () => {
    const idempotent = onFetch(place.world.once, OPTIONS)
    const POST = idempotent({ lease: '5s' }, async (_request, { commit }) =>
      commit(async ({ tx, key }) => {
        await effect(tx, key)
        throw Object.assign(new Error('NEXT_REDIRECT'), { digest: 'NEXT_REDIRECT;replace;/done;307;' })
      }),
    )
    const seen = await POST(post('k')).catch((error: unknown) => error as Error)
    expect([seen instanceof Response ? seen.status : String(seen), await place.world.effects('k')]).toEqual([307, 1])
  })

  it('a redirect that is thrown by a batched route is no success without effect', async () => {
    const idempotent = onFetch(place.world.once, OPTIONS)
    const POST = idempotent.batched({
      statement: () => ({ sql: 'insert into contract_effect (route, key) values ($1, $2)', values: ['x', 'k'] }),
      respond: () => {
        throw Object.assign(new Error('NEXT_REDIRECT'), { digest: 'NEXT_REDIRECT;replace;/done;307;' })
      },
    })
    const seen = await POST(post('k')).catch((error: unknown) => error as Error)
    const effects = await place.world.effects('k')
    expect([seen instanceof Response ? seen.status : String(seen), effects]).toEqual([500, 0])
  })

  it('a batched answer with a status that has no body', async () => {
    const idempotent = onFetch(place.world.once, OPTIONS)
    const POST = idempotent.batched({
      statement: () => ({ sql: 'insert into contract_effect (route, key) values ($1, $2)', values: ['x', 'k'] }),
      respond: () => ({ status: 205, body: { reset: true } }),
    })
    for (let n = 0; n < 2; n++) expect((await POST(post('k'))).status).toBe(205)
  })

  it.each([Number.NaN, 'abc', 201.5, 42])(
    'a batched answer with the status %s is one 5xx, without effect',
    async (status) => {
      const app = express()
      app.set('env', 'test')
      const batched = onExpress(place.world.once, OPTIONS).batched({
        statement: () => ({ sql: 'insert into contract_effect (route, key) values ($1, $2)', values: ['x', 'k'] }),
        respond: () => ({ status: status as number, body: { made: true } }),
      })
      app.post('/orders', batched)
      place.started = await listen(createServer(app))
      const client = new Client(place.started.base)
      const seen = await Promise.race([
        client.send({ key: 'k', type: 'application/json' }),
        sleep(2000).then(() => ({ status: 0 })),
      ])
      expect([seen.status, await place.world.effects('k')]).toEqual([500, 0])
    },
  )

  it('what stands around a route may fail while a batched answer leaves', async () => {
    const app = express()
    app.set('env', 'test')
    app.use((_req, res, next) => {
      const { end } = res
      let ends = 0
      res.end = (...args: unknown[]) => {
        if (ends++ === 0) throw new Error('cannot end')
        return Reflect.apply(end, res, args)
      }
      next()
    })
    const batched = onExpress(place.world.once, OPTIONS).batched({
      statement: () => ({ sql: 'insert into contract_effect (route, key) values ($1, $2)', values: ['x', 'k'] }),
      respond: () => ({ status: 201, body: { made: true } }),
    })
    app.post('/orders', batched)
    place.started = await listen(createServer(app))
    const client = new Client(place.started.base)
    const sent = client.send({ key: 'k', type: 'application/json' })
    await expect(Promise.race([sent, sleep(2000)])).rejects.toThrow(/hang up/)
    expect(await place.world.effects('k')).toBe(1)
  })

  it('a body that was read before is said, over fetch', async () => {
    const POST = onFetch(place.world.once, OPTIONS)(async () => new Response('made'))
    const request = post('k')
    await request.text()
    const seen = await POST(request)
    expect([seen.status, await seen.json()]).toMatchObject([500, { code: 'ONCE_BODY_UNSEEN' }])
  })

  it.each([
    ['first', true],
    ['last', false],
  ])('a digest that is wrong is refused, with a parser %s', async (_name, parserFirst) => {
    const app = express()
    if (parserFirst) app.use(express.json({ verify: (req, _res, bytes) => Object.assign(req, { rawBody: bytes }) }))
    app.post(
      '/orders',
      onExpress(place.world.once, { ...OPTIONS, fingerprint: { digest: true } })(async (_req, res, { tx, key }) => {
        await effect(tx, key)
        res.json({ made: true })
      }),
    )
    place.started = await listen(createServer(app))
    const client = new Client(place.started.base)
    const digest = `sha-256=:${Buffer.alloc(32).toString('base64')}:`
    const seen = await client.send({ key: 'k', type: 'application/json', headers: { 'content-digest': digest } })
    expect([seen.status, await place.world.effects('k')]).toEqual([400, 0])
  })

  it('a webhook whose answer comes too late is nobody’s', async () => {
    const slow = { receive: () => sleep(200).then(() => ({ status: 200, headers: {}, body: '' })) }
    const listener = webhook(slow as never)
    place.started = await listen(
      createServer((req, res) => {
        setTimeout(() => res.writeHead(503).end('late'), 50)
        void listener(req, res)
      }),
    )
    const client = new Client(place.started.base)
    expect((await client.send({ key: 'k' })).status).toBe(503)
    await sleep(400)
  })
})
