import { createServer } from 'node:http'
import Fastify from 'fastify'
import { Hono } from 'hono'
import Koa from 'koa'
import { describe, expect, it } from 'vitest'
import { idempotency as onFastify } from '../../src/entry/fastify.ts'
import { idempotency as onFetch } from '../../src/entry/fetch.ts'
import { idempotency as onHono } from '../../src/entry/hono.ts'
import { idempotency as onKoa } from '../../src/entry/koa.ts'
import { Client } from '../../src/testing/http-contract/client.ts'
import { worldOfEachTest } from './world-of-each-test.ts'
import { effect, listen, type QueryTx } from './world.ts'

const place = worldOfEachTest()

describe('a replay on Fastify', () => {
  it('is the first answer, byte for byte: hooks and serializers saw that one already', async () => {
    const app = Fastify({ forceCloseConnections: true })
    app.addHook('onRequest', async (_request, reply) => {
      reply.header('set-cookie', ['a=1', 'b=2']).header('link', ['</x>; rel=preload', '</y>; rel=preload'])
    })
    app.addHook('preSerialization', async (_request, _reply, payload) => ({ data: payload }))
    app.addHook('onSend', async (_request, reply, payload) => {
      reply.header('x-sent', 'yes')
      return `${String(payload)} `
    })
    const idempotent = onFastify(place.world.once, { scope: 'global' })
    app.post(
      '/orders',
      idempotent(async (_request, reply, { tx, key }) => {
        await effect(tx, key)
        return reply.code(201).type('application/json').send({ made: true })
      }),
    )
    place.started = { base: await app.listen({ port: 0, host: '127.0.0.1' }), close: () => app.close() }
    const client = new Client(place.started.base)
    const key = client.newKey()
    const first = await client.send({ key })
    const second = await client.send({ key })
    expect(first.text).toBe('{"data":{"made":true}} ')
    expect([second.status, second.text]).toEqual([201, first.text])
    expect(second.headers.get('content-type')).toBe(first.headers.get('content-type'))
    expect(second.headers.getSetCookie()).toEqual(['a=1', 'b=2'])
    expect(second.headers.get('link')).toBe(first.headers.get('link'))
  })
})

describe('a replay on Koa', () => {
  it('lets the middleware around it go on, which finds its headers open', async () => {
    const seen: boolean[] = []
    const app = new Koa()
    app.silent = true
    app.use(async (ctx, next) => {
      await next()
      seen.push(ctx.headerSent)
      ctx.cookies.set('session', 'kept')
      ctx.set('x-time', '1ms')
    })
    app.use(onKoa(place.world.once, { scope: 'global' })())
    app.use(async (ctx) => {
      const { tx, key } = ctx.state['once'] as { tx: QueryTx; key: string }
      await effect(tx, key)
      ctx.status = 201
      ctx.body = { made: true }
    })
    place.started = await listen(createServer((req, res) => void app.callback()(req, res)))
    const client = new Client(place.started.base)
    const key = client.newKey()
    const first = await client.send({ key })
    const second = await client.send({ key })
    expect(seen).toEqual([false, false])
    expect([second.status, second.text]).toEqual([201, first.text])
    expect(second.headers.get('x-time')).toBe('1ms')
    expect(second.headers.getSetCookie()).toHaveLength(1)
    expect(second.headers.get('idempotent-replayed')).toBe('true')
  })
})

describe('a replay on Hono', () => {
  it('keeps every cookie that stood there before, and understands a form that was read upstream', async () => {
    const app = new Hono()
    app.use(async (c, next) => {
      c.header('set-cookie', 'a=1', { append: true })
      c.header('set-cookie', 'b=2', { append: true })
      await c.req.formData()
      await next()
    })
    const idempotent = onHono(place.world.once, { scope: 'global' })
    app.post('/orders', idempotent(), async (c) => {
      const { tx, key } = c.var.once
      await effect(tx, key)
      return c.json({ made: true }, 201)
    })
    const ask = async (key: string, body: string | FormData): Promise<Response> =>
      app.request('/orders', {
        method: 'POST',
        body,
        headers: {
          'idempotency-key': `"${key}"`,
          ...(typeof body === 'string' ? { 'content-type': 'application/x-www-form-urlencoded' } : {}),
        },
      })
    const form = (): FormData => {
      const made = new FormData()
      made.set('amount', '5')
      made.set('file', new Blob(['bytes']), 'a.txt')
      return made
    }
    for (const body of [() => 'amount=5&to=x', form]) {
      const key = crypto.randomUUID()
      const first = await ask(key, body())
      const second = await ask(key, body())
      expect([first.status, second.status]).toEqual([201, 201])
      expect(first.headers.getSetCookie()).toEqual(['a=1', 'b=2'])
      expect(second.headers.get('idempotent-replayed')).toBe('true')
      expect(second.headers.getSetCookie()).toEqual(['a=1', 'b=2'])
      expect(await place.world.effects(key)).toBe(1)
    }
  })
})

describe('what a handler says about its body, or who may read it', () => {
  it('is replayed, and cookies are not', async () => {
    const said = {
      'content-disposition': 'attachment; filename="a.csv"',
      'content-security-policy': "default-src 'none'",
      'cache-control': 'private',
      vary: 'Origin',
      'access-control-allow-origin': 'https://shop.example',
      'access-control-expose-headers': 'X-A',
      'x-content-type-options': 'nosniff',
    }
    const idempotent = onFetch(place.world.once, { scope: 'global' })
    const handle = idempotent(async (_request, { tx, key }) => {
      await effect(tx, key)
      return new Response('a,b', { status: 201, headers: { ...said, 'set-cookie': 'a=1', 'content-type': 'text/csv' } })
    })
    const ask = (): Promise<Response> =>
      handle(new Request('http://x/orders', { method: 'POST', body: '1', headers: { 'idempotency-key': '"k"' } }))
    await ask()
    const second = await ask()
    expect(second.headers.get('idempotent-replayed')).toBe('true')
    for (const [name, value] of Object.entries(said)) expect(second.headers.get(name)).toBe(value)
    expect(second.headers.getSetCookie()).toEqual([])
  })
})

describe('answers that a host has its handlers throw', () => {
  const throwing = (make: () => unknown): { key: string; ask: () => Promise<Response> } => {
    const key = crypto.randomUUID()
    const handle = onFetch(place.world.once, { scope: 'global' })(async (_request, { tx, key: own }) => {
      await effect(tx, own)
      throw make()
    })
    const headers = { 'idempotency-key': `"${key}"` }
    return { key, ask: () => handle(new Request('http://x/o', { method: 'POST', body: '1', headers })) }
  }

  it('a Response commits, and is replayed', async () => {
    const { key, ask } = throwing(() => new Response(null, { status: 303, headers: { location: '/done' } }))
    for (let n = 0; n < 2; n++) {
      const seen = await ask()
      expect([seen.status, seen.headers.get('location')]).toEqual([303, '/done'])
    }
    expect(await place.world.effects(key)).toBe(1)
  })

  // Hosts as they are now throw in test/hosts, for real.
  it('what is not found rolls back, and is answered as such, also of a Next.js from before', async () => {
    const errors: (() => unknown)[] = [
      () => Object.assign(new Error('NEXT_NOT_FOUND'), { digest: 'NEXT_NOT_FOUND' }),
      () => new Response('gone', { status: 404 }),
    ]
    for (const make of errors) {
      const { key, ask } = throwing(make)
      expect((await ask()).status).toBe(404)
      expect(await place.world.effects(key)).toBe(0)
    }
  })

  it('what another service answered to a call of the handler is no answer of ours', async () => {
    const errors = [
      // undici with `throwOnError`, and the client of Kubernetes.
      Object.assign(new Error('Response status code 404'), { status: 404, body: { message: 'a secret is missing' } }),
      Object.assign(new Error('Moved'), { statusCode: 301, location: 'http://inside/' }),
    ]
    for (const error of errors) {
      const { key, ask } = throwing(() => error)
      await expect(ask()).rejects.toBe(error)
      expect(await place.world.effects(key)).toBe(0)
    }
  })
})
