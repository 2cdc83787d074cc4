import { createServer } from 'node:http'
import { Readable } from 'node:stream'
import Koa from 'koa'
import { expect, test } from 'vitest'
import { worldOfEachTest } from '../../test/http/world-of-each-test.ts'
import { effect, listen, type QueryTx } from '../../test/http/world.ts'
import { idempotency } from '../entry/koa.ts'
import { Client } from '../testing/http-contract/client.ts'

const place = worldOfEachTest()

async function serve(register: (app: Koa) => void): Promise<Client> {
  const app = new Koa()
  app.silent = true
  register(app)
  place.started = await listen(createServer((req, res) => void app.callback()(req, res)))
  return new Client(place.started.base)
}

test('every kind of body is held and comes back', async () => {
  const bodies: Record<string, () => unknown> = {
    '/json': () => ({ a: 1 }),
    '/text': () => 'text',
    '/bytes': () => Buffer.from([0, 255]),
    '/stream': () => Readable.from(['s', 't']),
    '/blob': () => new Blob(['blob']),
    '/null': () => null,
  }
  const client = await serve((app) => {
    const idempotent = idempotency(place.world.once, { scope: 'global' })
    app.use(idempotent())
    app.use(async (ctx) => {
      const { tx, key } = ctx.state['once']
      await effect(tx, key)
      ctx.body = bodies[ctx.path]?.()
    })
  })
  for (const path of Object.keys(bodies)) {
    const key = client.newKey()
    const first = await client.send({ path, key })
    const second = await client.send({ path, key })
    expect([path, second.status, second.text, second.headers.get('content-type')]).toEqual([
      path,
      first.status,
      first.text,
      first.headers.get('content-type'),
    ])
    expect(first.status).toBeLessThan(300)
    expect(second.headers.get('idempotent-replayed')).toBe('true')
    expect(await place.world.effects(key)).toBe(1)
  }
})

test('ctx.throw, error middleware around it, and headers of middleware before it', async () => {
  const client = await serve((app) => {
    const idempotent = idempotency(place.world.once, { scope: 'global' })
    app.use(async (ctx, next) => {
      ctx.set('access-control-allow-origin', '*')
      try {
        await next()
      } catch (error) {
        if (ctx.path !== '/caught') throw error
        ctx.status = 410
        ctx.body = 'caught'
      }
    })
    app.use(idempotent())
    app.use(async (ctx) => {
      const { tx, key } = ctx.state['once']
      place.world.ran(key)
      await effect(tx, key)
      if (ctx.path === '/ok') ctx.body = 'ok'
      else ctx.throw(402, 'declined')
    })
  })
  for (const [path, status, text] of [
    ['/thrown', 402, 'declined'],
    ['/caught', 410, 'caught'],
  ] as const) {
    const key = client.newKey()
    for (const replayed of [null, 'true']) {
      const seen = await client.send({ path, key })
      expect([seen.status, seen.text, seen.headers.get('idempotent-replayed')]).toEqual([status, text, replayed])
    }
    expect([place.world.runs(key), await place.world.effects(key)]).toEqual([1, 0])
  }
  const key = client.newKey()
  place.world.failNextCommit('fault')
  for (const status of [503, 200, 200]) {
    const seen = await client.send({ path: '/ok', key })
    expect([seen.status, seen.headers.get('access-control-allow-origin')]).toEqual([status, '*'])
  }
})

test('a leased route: commit resolves after the commit, and rejects when there was none', async () => {
  const seen: string[] = []
  const client = await serve((app) => {
    const idempotent = idempotency(place.world.once, { scope: 'global' })
    app.use(idempotent({ lease: '5s' }))
    app.use(async (ctx) => {
      const { step, commit, key } = ctx.state['once']
      await step('outside', async () => 1)
      await commit(async ({ tx }: { tx: QueryTx }) => {
        await effect(tx, key)
        if (ctx.path === '/json') ctx.body = { done: true }
        if (ctx.path === '/stream') ctx.body = Readable.from(['s', 't'])
        if (ctx.path === '/blob') ctx.body = new Blob(['b'])
        if (ctx.path === '/response') ctx.body = new Response('r', { status: 201 })
        if (ctx.path === '/created') ctx.status = 201
        if (ctx.path === '/null') ctx.body = null
        if (ctx.path === '/declined') ctx.status = 402
      })
      seen.push(`${ctx.path} ${await place.world.effects(key)}`)
    })
  })
  for (const [path, status, text, effects] of [
    ['/json', 200, '{"done":true}', 1],
    ['/stream', 200, 'st', 1],
    ['/blob', 200, 'b', 1],
    ['/response', 201, 'r', 1],
    ['/created', 201, 'Created', 1],
    ['/null', 204, '', 1],
    ['/declined', 402, 'Payment Required', 0],
  ] as const) {
    const key = client.newKey()
    for (const replayed of [null, 'true']) {
      const { status: got, headers, text: body } = await client.send({ path, key })
      expect([path, got, body, headers.get('idempotent-replayed')]).toEqual([path, status, text, replayed])
    }
    expect(await place.world.effects(key)).toBe(effects)
  }
  expect(seen.splice(0)).toEqual([
    '/json 1',
    '/stream 1',
    '/blob 1',
    '/response 1',
    '/created 1',
    '/null 1',
    '/declined 0',
  ])
  const key = client.newKey()
  const unanswered = await client.send({ path: '/unanswered', key })
  expect([unanswered.status, JSON.parse(unanswered.text).code]).toEqual([500, 'ONCE_NO_ANSWER'])
  expect([await place.world.effects(key), seen]).toEqual([0, []])
})

test.each(['at once', 'after its first bytes'])('a leased route: a body that breaks %s is one 500', async (when) => {
  const client = await serve((app) => {
    app.use(idempotency(place.world.once, { scope: 'global' })({ lease: '5s' }))
    app.use(({ state, path, response }) =>
      state['once'].commit(async ({ tx, key }: { tx: QueryTx; key: string }) => {
        await effect(tx, key)
        const chunks = async function* (): AsyncGenerator<Uint8Array> {
          if (when !== 'at once') yield Buffer.from('begun')
          throw new Error('broken')
        }
        const broken = Readable.from(chunks())
        response.body = path === '/web' ? Readable.toWeb(broken) : broken
      }),
    )
  })
  for (const path of ['/web', '/node']) {
    const key = client.newKey()
    const { status, text } = await client.send({ path, key })
    expect([status, text.includes('begun')]).toEqual([500, false])
    expect(await place.world.effects(key)).toBe(0)
  }
})
