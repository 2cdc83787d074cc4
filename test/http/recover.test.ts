import 'reflect-metadata'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Body, Controller, Module, Post, Res } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import express, { type Response as ExpressResponse } from 'express'
import Fastify from 'fastify'
import { Hono } from 'hono'
import Koa from 'koa'
import { describe, expect, it } from 'vitest'
import { idempotency as onExpress } from '../../src/entry/express.ts'
import { idempotency as onFastify } from '../../src/entry/fastify.ts'
import { idempotency as onFetch, type RecoverRoute } from '../../src/entry/fetch.ts'
import { idempotency as onHono } from '../../src/entry/hono.ts'
import { idempotency as onKoa } from '../../src/entry/koa.ts'
import { Idempotent, OnceModule, Op } from '../../src/entry/nest.ts'
import { idempotency as onNode } from '../../src/entry/node.ts'
import type { LeasedOperation } from '../../src/index.ts'
import { effectivelyOnce } from '../../src/index.ts'
import { memoryStore } from '../../src/store/memory/memory-store.ts'
import { effect, listen, openWorld, type QueryTx, type Started, type StoreKind, type World } from './world.ts'

type Op5s = LeasedOperation<QueryTx, {}>

const paid: { key: string; n: number }[] = []
/** What the handler and `recover` do: pay once, then commit. The process of the first attempt "dies" after the call. */
const pay = (op: Pick<Op5s, 'step' | 'key'>): Promise<unknown> =>
  op.step('pay', async ({ key }) => {
    paid.push({ key, n: paid.length })
    return { payment: key }
  })
const dies = async (op: Pick<Op5s, 'step' | 'key'>): Promise<never> => {
  await pay(op)
  throw new Error('the process is gone')
}
const recover: RecoverRoute<QueryTx, {}> = async ({ method, target, body }, op) => {
  await pay(op)
  const { order } = body as { order: string }
  return op.commit(async ({ tx }) => {
    await effect(tx, op.key)
    return { status: 201, body: { order, by: `${method} ${new URL(target, 'http://x').pathname}`, scope: op.scope } }
  })
}
const OWN = { lease: '5s', name: 'orders', recover } as const
const label = (order: string | undefined | null): string => `order ${order}`

type Start = (world: World) => Promise<Started>

const ofFetch = (handle: (request: Request) => Response | Promise<Response>): Promise<Started> =>
  listen(createServer((req, res) => void answer(handle, req, res)))

async function answer(
  handle: (request: Request) => Response | Promise<Response>,
  req: IncomingMessage,
  res: ServerResponse,
): Promise<void> {
  const pieces: Buffer[] = []
  for await (const piece of req) pieces.push(piece as Buffer)
  const body = Buffer.concat(pieces)
  const headers = req.headers as Record<string, string>
  const made = await handle(new Request(`http://x${req.url}`, { method: 'POST', headers, body }))
  res.writeHead(made.status, Object.fromEntries(made.headers)).end(await made.text())
}

const STARTS: Record<string, Start> = {
  async express({ once }) {
    const idempotent = onExpress(once, { scope: () => 'ann', label: (req) => label(req.get('x-order')), onError() {} })
    const app = express().use(express.json())
    app.set('env', 'test').post(
      '/orders',
      idempotent(OWN, async (_req, _res, op) => dies(op)),
    )
    return listen(createServer(app))
  },
  async fastify({ once }) {
    const app = Fastify()
    const idempotent = onFastify(once, { scope: () => 'ann', label: (req) => label(String(req.headers['x-order'])) })
    app.post(
      '/orders',
      idempotent(OWN, async (_req, _reply, op) => dies(op)),
    )
    return { base: await app.listen({ port: 0, host: '127.0.0.1' }), close: () => app.close() }
  },
  async koa({ once }) {
    const app = new Koa()
    app.silent = true
    app.use(onKoa(once, { scope: () => 'ann', label: (ctx) => label(ctx.get('x-order')) })(OWN))
    app.use(async (ctx) => dies(ctx.state['once'] as Op5s))
    return listen(createServer((req, res) => void app.callback()(req, res)))
  },
  async node({ once }) {
    const idempotent = onNode(once, { scope: () => 'ann', label: (req) => label(String(req.headers['x-order'])) })
    return listen(createServer(idempotent(OWN, async (_req, _res, op) => dies(op))))
  },
  async hono({ once }) {
    const app = new Hono().onError((_error, c) => c.text('failed', 500))
    const idempotent = onHono(once, { scope: () => 'ann', label: (c) => label(c.req.header('x-order')) })
    app.post('/orders', idempotent(OWN), async (c) => dies(c.var.once))
    return ofFetch((request) => app.fetch(request))
  },
  async fetch({ once }) {
    const idempotent = onFetch(once, { scope: () => 'ann', label: (request) => label(request.headers.get('x-order')) })
    const POST = idempotent(OWN, async (_request, op) => dies(op))
    return ofFetch((request) => POST(request).catch(() => new Response('failed', { status: 500 })))
  },
  async nest({ once }) {
    class Orders {
      create(op: Op5s, _res: ExpressResponse): Promise<never> {
        return dies(op)
      }
    }
    Controller('orders')(Orders)
    Op()(Orders.prototype, 'create', 0)
    Res()(Orders.prototype, 'create', 1)
    Body()(Orders.prototype, 'create', 2)
    const create = Object.getOwnPropertyDescriptor(Orders.prototype, 'create')!
    Post()(Orders.prototype, 'create', create)
    Idempotent(OWN)(Orders.prototype, 'create', create)
    // oxlint-disable-next-line no-extraneous-class -- a module of Nest is a class
    class App {}
    const scoped = { scope: () => 'ann', label: (req: object) => label(Reflect.get(req, 'headers')['x-order']) }
    Module({ imports: [OnceModule.forRoot({ once, ...scoped, closeWithin: false })], controllers: [Orders] })(App)
    const app = await NestFactory.create(App, { logger: false })
    await app.listen(0, '127.0.0.1')
    const { port } = app.getHttpServer().address() as AddressInfo
    return { base: `http://127.0.0.1:${port}`, close: () => app.close() }
  },
}

const post = (base: string, key: string, order: string): Promise<Response> =>
  fetch(`${base}/orders`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'idempotency-key': key, 'x-order': order },
    body: JSON.stringify({ order }),
  })

const KINDS: readonly StoreKind[] = ['sqlite', 'postgres']

describe.each(KINDS)('a request whose client never comes back, on %s', (kind) => {
  it.each(Object.keys(STARTS))('is found by its label and finished by its route, on %s', async (name) => {
    const world = await openWorld(kind)
    const started = await (STARTS[name] as Start)(world)
    try {
      const { operations } = world.once
      expect((await post(started.base, 'k', '7')).status).toBe(500)
      const [found, ...more] = await operations.list({ state: 'abandoned', route: 'orders', label: 'order 7' })
      expect([found?.recoverable, more.length]).toEqual([true, 0])
      const shown = await operations.show(found!.id)
      expect(shown!.input).toMatchObject({ method: 'POST', body: { order: '7' } })
      const calls = paid.length
      expect(await operations.recover()).toEqual({ finished: 1, left: 0 })
      expect([paid.length, await world.effects('k')]).toEqual([calls, 1])
      expect(await operations.list()).toEqual([])
      // The client comes back after all.
      const answer = await post(started.base, 'k', '7')
      expect([answer.status, answer.headers.get('idempotent-replayed')]).toEqual([201, 'true'])
      expect(answer.headers.get('content-type')).toBe('application/json')
      expect(await answer.json()).toEqual({ order: '7', by: 'POST /orders', scope: 'ann' })
      expect((await post(started.base, 'k', '8')).status).toBe(422)
    } finally {
      await started.close()
      await world.close()
    }
  })
})

describe('recover of a route', () => {
  const post1 = (headers: Record<string, string>, body: string | Uint8Array): Request =>
    new Request('http://x/orders', { method: 'POST', headers: { 'idempotency-key': 'k', ...headers }, body })

  it('finds stored requests encrypted where the route encrypts, and opens them', async () => {
    const world = await openWorld('sqlite')
    const keys = [{ id: 'k1', secret: new Uint8Array(32).fill(7) }]
    const idempotent = onFetch(world.once, { scope: 'global', encrypt: { keys } })
    const POST = idempotent(OWN, async (_request, op) => dies(op))
    await expect(POST(post1({ 'content-type': 'application/json' }, '{"order":"secret"}'))).rejects.toThrow()
    const stored = await world.query('select input from effectively_once_recover')
    expect(String(stored[0]?.['input'])).not.toContain('secret')
    expect(await world.once.operations.recover()).toEqual({ finished: 1, left: 0 })
    const answer = await POST(post1({ 'content-type': 'application/json' }, '{"order":"secret"}'))
    expect(await answer.json()).toMatchObject({ order: 'secret' })
    expect(await world.query('select input from effectively_once_recover')).toEqual([])
    await world.close()
  })

  it('takes the next request first when it could not open one', async () => {
    const world = await openWorld('sqlite')
    const keys = [{ id: 'k1', secret: new Uint8Array(32).fill(7) }]
    const sealed = { ...OWN, name: 'sealed' }
    const first = onFetch(world.once, { scope: 'global', encrypt: { keys } })(sealed, async (_request, op) => dies(op))
    const second = onFetch(world.once, { scope: 'global' })(OWN, async (_request, op) => dies(op))
    await first(post1({ 'content-type': 'application/json' }, '{"order":"a"}')).catch(() => {})
    const other = { 'content-type': 'application/json', 'idempotency-key': 'other' }
    await second(post1(other, '{"order":"b"}')).catch(() => {})
    await world.query(`update effectively_once_recover set input = replace(input, '"k1"', '"gone"')`)
    expect(await world.once.operations.recover({}, { limit: 1 })).toEqual({ finished: 0, left: 1 })
    expect(await world.once.operations.recover({}, { limit: 1 })).toEqual({ finished: 1, left: 0 })
    await world.close()
  })

  it.each([
    ['text/plain', 'ünï', 'ünï'],
    ['application/problem+json; charset=utf-8', '{"a":1}', { a: 1 }],
    ['application/octet-stream', new Uint8Array([255, 0, 254]), Buffer.from([255, 0, 254])],
  ])('gets a body of %s as it was', async (type, sent, seen) => {
    const world = await openWorld('sqlite')
    const bodies: unknown[] = []
    const take: RecoverRoute<QueryTx, {}> = async ({ body }, op) => {
      bodies.push(body)
      return op.commit(async () => ({ status: 200 }))
    }
    const POST = onFetch(world.once, { scope: 'global' })({ ...OWN, recover: take }, async (_request, op) => dies(op))
    await POST(post1({ 'content-type': type }, sent)).catch(() => {})
    await world.once.operations.recover()
    expect(bodies).toEqual([seen])
    await world.close()
  })

  it('stays abandoned when it fails, and is told', async () => {
    const world = await openWorld('sqlite')
    const own = { ...OWN, recover: async () => Promise.reject(new Error('still down')) }
    const POST = onFetch(world.once, { scope: 'global' })(own, async (_request, op) => dies(op))
    await POST(post1({}, 'x')).catch(() => {})
    expect(await world.once.operations.recover()).toEqual({ finished: 0, left: 1 })
    expect(world.signals).toContainEqual(expect.objectContaining({ kind: 'troubled', task: 'recover' }))
    expect(await world.once.operations.list({ state: 'abandoned' })).toHaveLength(1)
    await world.close()
  })

  it('runs in the background, without a call', async () => {
    const once = effectivelyOnce({ namespace: 'x', store: memoryStore(), guard: 'off' })
    let finished = 0
    const own = {
      ...OWN,
      recover: async (_input: unknown, op: LeasedOperation<unknown, {}>) => {
        finished++
        return op.commit(async () => ({ status: 200 }))
      },
    }
    const POST = onFetch(once, { scope: 'global' })(own, async () => Promise.reject(new Error('gone')))
    await POST(post1({}, 'x')).catch(() => {})
    await expect.poll(() => finished, { timeout: 5_000 }).toBe(1)
    expect(await once.operations.list()).toEqual([])
    await once.close()
  })

  it('is refused at the start where it cannot work', async () => {
    const once = effectivelyOnce({ namespace: 'x', store: memoryStore(), guard: 'off' })
    const idempotent = onFetch(once, { scope: 'global' })
    const make = (own: object) => () => idempotent(own, async () => new Response('x') as never)
    const invalid = expect.objectContaining({ code: 'ONCE_OPTION_INVALID' })
    expect(make({ lease: '5s', recover })).toThrow(invalid)
    expect(make({ name: 'a', recover })).toThrow(invalid)
    expect(make({ lease: '5s', name: '', recover })).toThrow(invalid)
    expect(make(OWN)).not.toThrow()
    expect(make(OWN)).toThrow(/two routes have the name 'orders'/)
    await once.close()
  })
})
