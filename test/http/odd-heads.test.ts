import { createServer, type ServerResponse } from 'node:http'
import { connect as connect2, createServer as createServer2 } from 'node:http2'
import type { AddressInfo } from 'node:net'
import express from 'express'
// @ts-expect-error -- the older Express has no types here
import express4 from 'express4'
import Fastify from 'fastify'
import Koa from 'koa'
import { describe, expect, it } from 'vitest'
import { idempotency as onExpress } from '../../src/entry/express.ts'
import { idempotency as onFastify } from '../../src/entry/fastify.ts'
import { idempotency as onKoa } from '../../src/entry/koa.ts'
import { idempotency as onNode } from '../../src/entry/node.ts'
import { Client } from '../../src/testing/http-contract/client.ts'
import { impatientClient } from './impatient-client.ts'
import { worldOfEachTest } from './world-of-each-test.ts'
import { effect, listen, type QueryTx, type Started, type World } from './world.ts'

interface Op {
  readonly tx: QueryTx
  readonly key: string
}
type RawHandler = (res: ServerResponse, op: Op) => unknown

const OPTIONS = { scope: 'global', deadline: '600ms' } as const

function expressApp(make: typeof express, world: World, handler: RawHandler): Promise<Started> {
  const app = make()
  app.set('env', 'test')
  app.use((_req, res, next) => {
    res.setHeader('set-cookie', ['before=1', 'too=2'])
    next()
  })
  app.post(
    '/orders',
    onExpress(world.once, OPTIONS)((_req, res, op) => handler(res, op)),
  )
  return listen(createServer(app))
}

const ADAPTERS: Record<string, (world: World, handler: RawHandler) => Promise<Started>> = {
  node: (world, handler) => {
    const idempotent = onNode(world.once, { ...OPTIONS, onError: () => {} })
    const listener = idempotent((_req, res, op) => handler(res, op))
    return listen(
      createServer((req, res) => {
        res.setHeader('set-cookie', ['before=1', 'too=2'])
        listener(req, res)
      }),
    )
  },
  'express 5': (world, handler) => expressApp(express, world, handler),
  'express 4': (world, handler) => expressApp(express4 as typeof express, world, handler),
  koa: (world, handler) => {
    const app = new Koa()
    app.silent = true
    app.use(async (ctx, next) => {
      ctx.set('set-cookie', ['before=1', 'too=2'])
      await next()
    })
    app.use(onKoa(world.once, OPTIONS)())
    app.use(async (ctx) => {
      ctx.respond = false
      await handler(ctx.res, ctx.state['once'] as Op)
    })
    return listen(createServer((req, res) => void app.callback()(req, res)))
  },
}

describe.each(Object.entries(ADAPTERS))('a head that Node would refuse, on %s', (_name, open) => {
  const place = worldOfEachTest()
  const serve = async (handler: RawHandler): Promise<Client> => {
    place.started = await open(place.world, handler)
    return impatientClient(place.started)
  }

  it('a status that is none is refused in the handler, which may answer another one', async () => {
    const client = await serve(async (res, { tx, key }) => {
      await effect(tx, key)
      for (const status of [99, 1000, Number.NaN]) {
        expect(() => res.writeHead(status, { 'x-lost': '1' })).toThrow(
          expect.objectContaining({ name: 'RangeError', code: 'ERR_HTTP_INVALID_STATUS_CODE' }),
        )
      }
      res.writeHead(201).end('made')
    })
    const key = client.newKey()
    const first = await client.send({ path: '/orders', key })
    expect([first.status, first.text, first.headers.get('x-lost')]).toEqual([201, 'made', null])
    expect(await place.world.effects(key)).toBe(1)
  })

  it('words of a status that no status line may have are one 5xx, without effect', async () => {
    const client = await serve(async (res, { tx, key }) => {
      await effect(tx, key)
      res.statusCode = 201
      res.statusMessage = 'no\r\nSet-Cookie: forged=1'
      res.end('made')
    })
    const key = client.newKey()
    const seen = await client.send({ key })
    expect(seen.status).toBeGreaterThanOrEqual(500)
    expect(await place.world.effects(key)).toBe(0)
  })

  it('a status given as text is a number', async () => {
    const client = await serve(async (res, { tx, key }) => {
      await effect(tx, key)
      res.statusCode = '201' as unknown as number
      res.end('made')
    })
    const key = client.newKey()
    for (let n = 0; n < 2; n++) expect((await client.send({ key })).status).toBe(201)
    expect(await place.world.effects(key)).toBe(1)
  })

  it.each([undefined, Number.NaN, 'abc', 0])('no status at all (%s) is one 5xx, without effect', async (status) => {
    const client = await serve(async (res, { tx, key }) => {
      await effect(tx, key)
      res.statusCode = status as number
      res.end('made')
    })
    const key = client.newKey()
    expect((await client.send({ key })).status).toBe(500)
    expect(await place.world.effects(key)).toBe(0)
  })

  it('a cookie of an answer that is not sent is not sent either', async () => {
    const client = await serve(async (res, { tx, key }) => {
      await effect(tx, key)
      res.statusCode = 200
      res.appendHeader('set-cookie', 'session=secret')
      res.end('made')
    })
    const key = client.newKey()
    place.world.failNextCommit('fault')
    const seen = await client.send({ key })
    expect(seen.status).toBe(503)
    expect(seen.headers.getSetCookie()).toEqual(['before=1', 'too=2'])
  })
})

describe('on Fastify', () => {
  const place = worldOfEachTest()

  it('a cookie of an answer that is not sent is not sent either', async () => {
    const app = Fastify({ forceCloseConnections: true })
    app.addHook('onRequest', async (_request, reply) => {
      reply.header('set-cookie', 'before=1')
      reply.header('set-cookie', 'too=2')
    })
    app.post(
      '/orders',
      onFastify(
        place.world.once,
        OPTIONS,
      )(async (_request, reply, { tx, key }) => {
        await effect(tx, key)
        return reply.header('set-cookie', 'session=secret').send({ made: true })
      }),
    )
    place.started = { base: await app.listen({ port: 0, host: '127.0.0.1' }), close: () => app.close() }
    const client = new Client(place.started.base)
    place.world.failNextCommit('fault')
    const seen = await client.send({ key: client.newKey(), type: 'application/json' })
    expect(seen.status).toBe(503)
    expect(seen.headers.getSetCookie()).toEqual(['before=1', 'too=2'])
  })
})

describe('over HTTP/2', () => {
  const place = worldOfEachTest()

  it.each([
    ['a header without a value', (res: ServerResponse) => res.setHeader('x-none', null as unknown as string)],
    ['a header of the protocol', (res: ServerResponse) => res.setHeader(':path', '/')],
    ['a name that is none', (res: ServerResponse) => res.setHeader('x y', '1')],
    ['a header in writeHead', (res: ServerResponse) => res.writeHead(201, { ':status': 201 })],
    ['two values where one may be', (res: ServerResponse) => res.setHeader('content-type', ['a/b', 'c/d'])],
    ['a character that no header may have', (res: ServerResponse) => res.setHeader('x-smile', '\u{1f600}')],
    ['a coding between two hops', (res: ServerResponse) => res.setHeader('te', 'gzip')],
  ])('%s is one 5xx, without effect', async (_name, spoil) => {
    const idempotent = onNode(place.world.once, { ...OPTIONS, onError: () => {} })
    const listener = idempotent(async (_req, res, { tx, key }) => {
      await effect(tx, key)
      spoil(res)
      res.end('made')
    })
    const server = createServer2((req, res) => listener(req as never, res as never))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const session = connect2(base)
    try {
      const stream = session.request({ ':method': 'POST', ':path': '/orders', 'idempotency-key': 'k' })
      const status = await new Promise((resolve) => {
        stream.on('response', (headers) => resolve(headers[':status']))
        stream.on('error', resolve)
        stream.on('close', () => resolve('closed'))
        setTimeout(() => resolve('nothing'), 2000)
        stream.end()
      })
      expect(status).toBe(500)
      expect(await place.world.effects('k')).toBe(0)
    } finally {
      session.destroy()
      await new Promise((resolve) => server.close(resolve))
    }
  })
})
