import 'reflect-metadata'
import { AsyncLocalStorage } from 'node:async_hooks'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import { Body, Controller, HttpException, Module, Post } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { FastifyAdapter } from '@nestjs/platform-fastify'
import express from 'express'
import { Hono } from 'hono'
import Koa from 'koa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { idempotency as onExpress } from '../../src/entry/express.ts'
import { idempotency as onHono } from '../../src/entry/hono.ts'
import { idempotency as onKoa } from '../../src/entry/koa.ts'
import { Idempotent, OnceModule } from '../../src/entry/nest.ts'
import { contractBatched } from '../../src/testing/http-contract/index.ts'
import { Client } from '../../src/testing/http-contract/client.ts'
import { listen, openWorld, type Started, type World } from './world.ts'

let world: World
let started: Started | undefined
beforeEach(async () => {
  world = await openWorld('sqlite')
})
afterEach(async () => {
  await started?.close()
  started = undefined
  await world.close()
})

async function twice(client: Client): Promise<[first: string | null, second: string | null][]> {
  const key = client.newKey()
  const sent = { path: '/batched', key, body: JSON.stringify({ id: key }) }
  const first = await client.send(sent)
  const second = await client.send(sent)
  expect([first.status, second.status]).toEqual([201, 201])
  expect(second.text).toBe(first.text)
  return ['idempotent-replayed', 'x-around', 'x-before'].map((name) => [
    first.headers.get(name),
    second.headers.get(name),
  ])
}

const MARKED = [
  [null, 'true'],
  ['yes', 'yes'],
  ['yes', 'yes'],
]

it('Koa: the middleware around a batched route goes on, for first answers and replays', async () => {
  const app = new Koa()
  app.silent = true
  app.use(async (ctx, next) => {
    ctx.set('x-before', 'yes')
    await next()
    ctx.set('x-around', 'yes')
  })
  app.use(onKoa(world.once, { scope: 'global' }).batched(contractBatched))
  const callback = app.callback()
  started = await listen(createServer((req, res) => void callback(req, res)))
  const client = new Client(started.base)
  expect(await twice(client)).toEqual(MARKED)
  expect((await client.send({ path: '/batched', method: 'GET' })).status).toBe(500)
})

it('Hono: the middleware around a batched route goes on, for first answers and replays', async () => {
  const app = new Hono()
  app.use(async (c, next) => {
    c.header('x-before', 'yes')
    await next()
    c.header('x-around', 'yes')
  })
  app.all('/batched', onHono(world.once, { scope: 'global' }).batched({ methods: ['POST'] }, contractBatched))
  app.onError((error, c) => c.text(error.message, 500))
  const listener = getRequestListener(app.fetch)
  started = await listen(createServer((req, res) => void listener(req, res)))
  const client = new Client(started.base)
  expect(await twice(client)).toEqual(MARKED)
  const passing = await client.send({ path: '/batched', method: 'GET' })
  expect([passing.status, passing.text]).toEqual([500, expect.stringContaining('ONCE_UNSUPPORTED')])
})

it('Express: a body that a parser left as text is the same request, and must be JSON', async () => {
  const app = express()
  const batched = onExpress(world.once, { scope: 'global' }).batched(contractBatched)
  app.post('/batched', batched)
  app.post('/text/batched', express.text({ type: '*/*' }), batched)
  app.use(((error, _req, res, _next) => void res.status(500).send(String(error))) as express.ErrorRequestHandler)
  started = await listen(createServer(app))
  const client = new Client(started.base)
  const key = client.newKey()
  const text = { path: '/text/batched', key, body: JSON.stringify({ id: `é${key}` }) }
  const [first, second] = [await client.send(text), await client.send(text)]
  expect([first.status, first.text]).toEqual([201, `{"id":"é${key}"}`])
  expect([second.status, second.text, second.headers.get('idempotent-replayed')]).toEqual([201, first.text, 'true'])
  expect(await world.effects(`é${key}`)).toBe(1)
  const broken = await client.send({
    ...text,
    key: client.newKey(),
    body: '"half',
    headers: { 'content-type': 'text/plain' },
  })
  expect([broken.status, JSON.parse(broken.text)]).toEqual([
    400,
    expect.objectContaining({ code: 'ONCE_BODY_INVALID' }),
  ])
})

it.each(['sqlite', 'postgres'] as const)('the storage of a request is its own in respond(), on %s', async (kind) => {
  const own = await openWorld(kind)
  const users = new AsyncLocalStorage<string>()
  const app = new Hono()
  app.use((c, next) => users.run(c.req.header('x-user') ?? '', next))
  const { statement } = contractBatched
  const respond = () => ({ status: 201, body: { user: users.getStore() } })
  app.post('/batched', onHono(own.once, { scope: 'global' }).batched({ statement, respond }))
  const listener = getRequestListener(app.fetch)
  started = await listen(createServer((req, res) => void listener(req, res)))
  const client = new Client(started.base)
  const each = async (_: unknown, i: number): Promise<void> => {
    const body = JSON.stringify({ id: client.newKey() })
    const seen = await client.send({ path: '/batched', key: client.newKey(), body, headers: { 'x-user': `u${i}` } })
    expect([seen.status, seen.text]).toEqual([201, `{"user":"u${i}"}`])
  }
  await Promise.all(Array.from({ length: 24 }, each))
  await own.close()
})

describe.each(['express', 'fastify'])('Nest on %s', (platform) => {
  it('a batched method has pipes, and its own errors are answered by Nest', async () => {
    const seen: unknown[] = []
    class Charges {
      create(body: { id: string; amount?: number }): Promise<{ id: string }> {
        seen.push(body)
        if (body.amount === 0) throw new HttpException({ amount: 'none' }, 400)
        return Promise.resolve({ id: body.id })
      }
    }
    const descriptor = Object.getOwnPropertyDescriptor(Charges.prototype, 'create') as PropertyDescriptor
    Body({ transform: (body: object) => ({ ...body, piped: true }) })(Charges.prototype, 'create', 0)
    Idempotent.batched({ statement: contractBatched.statement, respond: contractBatched.respond })(
      Charges.prototype,
      'create',
      descriptor,
    )
    Post('/batched')(Charges.prototype, 'create', descriptor)
    Controller()(Charges)
    // oxlint-disable-next-line no-extraneous-class -- a module of Nest is a class
    class App {}
    Module({ imports: [OnceModule.forRoot({ once: world.once, scope: 'global' })], controllers: [Charges] })(App)
    const app =
      platform === 'express'
        ? await NestFactory.create(App, { logger: false, forceCloseConnections: true })
        : await NestFactory.create(App, new FastifyAdapter({ forceCloseConnections: true }), { logger: false })
    await app.listen(0, '127.0.0.1')
    const { port } = app.getHttpServer().address() as AddressInfo
    started = { base: `http://127.0.0.1:${port}`, close: () => app.close() }
    const client = new Client(started.base)
    expect(await twice(client)).toEqual([
      [null, 'true'],
      [null, null],
      [null, null],
    ])
    expect(seen[0]).toMatchObject({ piped: true })
    const refused = await client.send({ path: '/batched', key: client.newKey(), body: '{"id":"x","amount":0}' })
    expect([refused.status, JSON.parse(refused.text)]).toEqual([400, { amount: 'none' }])
  })
})
