import 'reflect-metadata'
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  type CallHandler,
  Controller,
  type ExecutionContext,
  Module,
  Post,
  Req,
  RequestTimeoutException,
  Res,
} from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { ExpressAdapter } from '@nestjs/platform-express'
import { FastifyAdapter } from '@nestjs/platform-fastify'
import express, { type RequestHandler } from 'express'
import Fastify, { type FastifyInstance } from 'fastify'
import Koa from 'koa'
import { Observable, race } from 'rxjs'
import { describe, expect, it } from 'vitest'
import { idempotency as onExpress } from '../../src/entry/express.ts'
import { idempotency as onFastify } from '../../src/entry/fastify.ts'
import { idempotency as onKoa } from '../../src/entry/koa.ts'
import { Idempotent, OnceModule, Op } from '../../src/entry/nest.ts'
import { Client } from '../../src/testing/http-contract/client.ts'
import { worldOfEachTest } from './world-of-each-test.ts'
import { effect, listen, type QueryTx, type World } from './world.ts'

interface Times {
  /** When the timeout answers. */
  readonly timeout: number
  /** How long its answer is under way. */
  readonly hook: number
  /** When the handler answers. */
  readonly handler: number
}

interface Plan extends Times {
  /** null: the app is plain. */
  readonly once: World['once'] | null
  readonly status: number
}

type Given = { readonly tx: QueryTx; readonly key: string } | null | undefined

const OPTIONS = { scope: 'global', deadline: '5s', inFlight: { waitFor: '2s' } } as const
const isMade = (status: number): boolean => status >= 200 && status < 400

async function made(op: Given, { handler }: Plan): Promise<void> {
  if (op) await effect(op.tx, op.key)
  await sleep(handler)
}

/** A request may have its own. */
function patienceOf({ headers }: { readonly headers: IncomingHttpHeaders }, { timeout }: Plan): number {
  return Number(headers['x-patience'] ?? timeout)
}

const after = (ms: number, work: () => void): void => void setTimeout(work, ms)

/** As a session does, which is saved first. */
function slowEnd({ hook }: Plan): RequestHandler {
  return (_req, res, next) => {
    const { end } = res
    let isOver = false
    res.end = (...args: unknown[]) => {
      if (isOver) return res
      isOver = true
      if (!res.headersSent) res.writeHead(res.statusCode)
      after(hook, () => Reflect.apply(end, res, args))
      return res
    }
    next()
  }
}

function openExpress(plan: Plan): Server {
  const app = express()
  app.use(slowEnd(plan), (req, res, next) => {
    after(patienceOf(req, plan), () => void (res.headersSent || res.status(503).json({ late: true })))
    next()
  })
  const handle = async (res: express.Response, op: Given): Promise<void> => {
    await made(op, plan)
    if (!res.headersSent) res.status(plan.status).json({ made: true })
  }
  const protect = plan.once && onExpress(plan.once, OPTIONS)
  app.post('/orders', protect ? protect((_req, res, op) => handle(res, op)) : (_req, res) => handle(res, null))
  return createServer(app)
}

function slowHook(app: FastifyInstance, { hook }: Plan): void {
  app.addHook('onSend', async (_request, _reply, payload) => {
    await sleep(hook)
    return payload
  })
}

async function openFastify(plan: Plan): Promise<Server> {
  const app = Fastify() as FastifyInstance
  slowHook(app, plan)
  app.addHook('onRequest', async (request, reply) =>
    after(patienceOf(request, plan), () => void (reply.sent || reply.code(503).send({ late: true }))),
  )
  const handle = async (reply: { code(status: number): unknown }, op: Given): Promise<unknown> => {
    await made(op, plan)
    reply.code(plan.status)
    return { made: true }
  }
  const protect = plan.once && onFastify(plan.once, OPTIONS)
  app.post(
    '/orders',
    protect ? protect((_request, reply, op) => handle(reply, op)) : (_request, reply) => handle(reply, null),
  )
  await app.ready()
  return app.server
}

function openKoa(plan: Plan): Server {
  const app = new Koa()
  app.silent = true
  app.use(async (_ctx, next) => {
    await next()
    await sleep(plan.hook)
  })
  app.use(async (ctx, next) => {
    const rest = next()
    rest.catch(() => {})
    const late = sleep(patienceOf(ctx, plan)).then(() => {
      if (ctx.headerSent || ctx.body !== undefined) return
      ctx.status = 503
      ctx.body = { late: true }
    })
    await Promise.race([rest, late])
  })
  if (plan.once) app.use(onKoa(plan.once, OPTIONS)())
  app.use(async (ctx) => {
    await made(ctx.state['once'] as Given, plan)
    ctx.status = plan.status
    ctx.body = { made: true }
  })
  return createServer((req, res) => void app.callback()(req, res))
}

async function openNest(plan: Plan, platform: 'express' | 'fastify'): Promise<Server> {
  class Orders {
    async create(_req: unknown, res: { status(status: number): unknown }, op: Given): Promise<unknown> {
      await made(plan.once ? op : null, plan)
      res.status(plan.status)
      return { made: true }
    }
  }
  const descriptor = Object.getOwnPropertyDescriptor(Orders.prototype, 'create') as PropertyDescriptor
  const params = [Req(), Res({ passthrough: true }), ...(plan.once ? [Op()] : [])]
  params.forEach((param, index) => param(Orders.prototype, 'create', index))
  Post()(Orders.prototype, 'create', descriptor)
  if (plan.once) Idempotent()(Orders.prototype, 'create', descriptor)
  Controller('orders')(Orders)
  // oxlint-disable-next-line no-extraneous-class -- a module of Nest is a class
  class App {}
  const options = { ...OPTIONS, closeWithin: false } as const
  Module({ imports: plan.once ? [OnceModule.forRoot({ once: plan.once, ...options })] : [], controllers: [Orders] })(
    App,
  )
  const adapter = platform === 'express' ? new ExpressAdapter() : new FastifyAdapter()
  const app = await NestFactory.create(App, adapter as never, { logger: false })
  if (platform === 'express') app.use(slowEnd(plan))
  else slowHook(app.getHttpAdapter().getInstance() as FastifyInstance, plan)
  app.useGlobalInterceptors({
    intercept: (context: ExecutionContext, next: CallHandler) => {
      const patience = patienceOf(context.switchToHttp().getRequest(), plan)
      const late = new Observable<never>((subscriber) =>
        after(patience, () => subscriber.error(new RequestTimeoutException())),
      )
      return race(next.handle(), late)
    },
  })
  await app.init()
  if (platform === 'fastify') await (app.getHttpAdapter().getInstance() as FastifyInstance).ready()
  return app.getHttpServer() as Server
}

const APPS: Record<string, (plan: Plan) => Server | Promise<Server>> = {
  Express: openExpress,
  Fastify: openFastify,
  Koa: openKoa,
  'Nest on Express': (plan) => openNest(plan, 'express'),
  'Nest on Fastify': (plan) => openNest(plan, 'fastify'),
}

interface Order extends Times {
  readonly status: number
}

/** Who is first: the handler, or the hook through which the timeout's answer goes. */
const ORDERS: Record<string, Order> = {
  'a handler answers while the timeout’s answer is under way': { timeout: 40, hook: 120, handler: 80, status: 201 },
  'a handler says 304 while the timeout’s answer is under way': { timeout: 40, hook: 120, handler: 80, status: 304 },
  'a handler answers after the timeout’s answer': { timeout: 40, hook: 20, handler: 160, status: 201 },
  'the timeout passes while a handler’s answer is under way': { timeout: 80, hook: 120, handler: 20, status: 201 },
}

describe.each(Object.entries(APPS))('a timeout around a route of %s', (_name, open) => {
  const place = worldOfEachTest()

  it.each(Object.entries(ORDERS))('%s: the plain app’s answer, an effect behind a success alone', async (_, order) => {
    const plain = await listen(await open({ ...order, once: null }))
    const expected = await new Client(plain.base).send({ key: 'k' })
    await plain.close()
    place.started = await listen(await open({ ...order, once: place.world.once }))
    const seen = await new Client(place.started.base).send({ key: 'k' })
    const effects = await place.world.effects('k')
    // The handler may go on.
    await sleep(250)
    expect([seen.status, seen.text]).toEqual([expected.status, expected.text])
    expect([effects, await place.world.effects('k')]).toEqual(isMade(seen.status) ? [1, 1] : [0, 0])
  })

  it('passes while a retry waits, and the record is answered while the timeout’s answer is under way', async () => {
    const times = { timeout: 600, hook: 100, handler: 150 }
    place.started = await listen(await open({ ...times, status: 201, once: place.world.once }))
    const client = new Client(place.started.base)
    const first = client.send({ key: 'k' })
    await sleep(30)
    const second = await client.send({ key: 'k', headers: { 'x-patience': '180' } })
    expect([(await first).status, [201, 408, 503].includes(second.status)]).toEqual([201, true])
    await sleep(300)
    const third = await client.send({ key: 'k' })
    expect([third.status, third.text, await place.world.effects('k')]).toEqual([201, '{"made":true}', 1])
  })
})
