import 'reflect-metadata'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { getRequestListener } from '@hono/node-server'
import { Body, Controller, Module, Post, Req, Res, StreamableFile } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import express, {
  type ErrorRequestHandler,
  type Request as ExpressRequest,
  type Response as ExpressResponse,
} from 'express'
import Fastify from 'fastify'
import { Hono } from 'hono'
import Koa from 'koa'
import { json as readJson } from 'node:stream/consumers'
import { idempotency as onExpress } from '../../src/entry/express.ts'
import { idempotency as onFastify } from '../../src/entry/fastify.ts'
import { idempotency as onHono } from '../../src/entry/hono.ts'
import { idempotency as onKoa } from '../../src/entry/koa.ts'
import { Idempotent, OnceModule, Op } from '../../src/entry/nest.ts'
import type { Once } from '../../src/index.ts'
import type { PgTx } from '../../src/entry/pg.ts'
import type { PoolClient } from 'pg'
import { type Adapter, type Asked, DEADLINE_MS, LATE_MS } from './kinds.ts'

export type Service = Once<PgTx<PoolClient>, {}>
interface Tx {
  readonly tx: Pick<PoolClient, 'query'>
  readonly key: string
}

const OPTIONS = { scope: 'global', deadline: `${DEADLINE_MS}ms`, keepHeaders: ['x-nonce'] } as const
const PIECES = 8
const PIECE = 'x'.repeat(4096)

export function serverOf(adapter: Adapter, once: Service): Promise<Server> {
  return APPS[adapter](once)
}

const APPS: Record<Adapter, (once: Service) => Promise<Server>> = {
  express: async (once) => {
    const app = express().use(express.json())
    const handler = onExpress(
      once,
      OPTIONS,
    )(async (req, res, op) => {
      await effect(op)
      return answerNode(req, res, req.body as Asked)
    })
    app.post('/soak', handler)
    app.use(((_error, _req, res, _next) => void res.status(500).json({ failed: true })) as ErrorRequestHandler)
    return createServer(app)
  },
  fastify: async (once) => {
    const app = Fastify()
    app.post(
      '/soak',
      onFastify(
        once,
        OPTIONS,
      )<{ Body: Asked }>(async (request, reply, op) => {
        await effect(op)
        const { kind, nonce } = request.body
        void reply.header('x-nonce', nonce)
        const streamed = streamOf(kind, nonce)
        if (streamed) return reply.send(streamed)
        if (kind === 'double') {
          void reply.code(201).send({ nonce })
          return reply.code(500).send({ nonce, second: true })
        }
        if (kind === 'callback') {
          setTimeout(() => void reply.code(201).send({ nonce }), 5)
          return reply
        }
        if (kind === 'killed') request.raw.socket.destroy()
        if (kind === 'destroyed') reply.raw.destroy()
        const status = await statusOf(kind)
        return reply.code(status).send({ nonce })
      }),
    )
    await app.ready()
    return app.server
  },
  nest: async (once) => {
    class Soak {
      async handle({ kind, nonce }: Asked, req: ExpressRequest, res: ExpressResponse, op: Tx): Promise<unknown> {
        await effect(op)
        res.setHeader('x-nonce', nonce)
        const streamed = streamOf(kind, nonce)
        if (streamed) {
          res.status(200)
          return new StreamableFile(streamed)
        }
        if (kind === 'double') {
          res.status(201).json({ nonce })
          res.status(500)
          return { nonce, second: true }
        }
        if (kind === 'killed') req.socket.destroy()
        if (kind === 'destroyed') res.destroy()
        res.status(await statusOf(kind))
        return { nonce }
      }
    }
    const descriptor = Object.getOwnPropertyDescriptor(Soak.prototype, 'handle') as PropertyDescriptor
    for (const [index, decorate] of [Body(), Req(), Res({ passthrough: true }), Op()].entries()) {
      decorate(Soak.prototype, 'handle', index)
    }
    for (const decorate of [Post('/soak'), Idempotent()]) decorate(Soak.prototype, 'handle', descriptor)
    Controller()(Soak)
    // oxlint-disable-next-line no-extraneous-class -- a module of Nest is a class
    class App {}
    Module({ imports: [OnceModule.forRoot({ once, ...OPTIONS })], controllers: [Soak] })(App)
    const app = await NestFactory.create(App, { logger: false })
    await app.init()
    return app.getHttpServer() as Server
  },
  koa: async (once) => {
    const app = new Koa()
    app.silent = true
    app.use(onKoa(once, OPTIONS)() as never)
    app.use(async (ctx) => {
      await effect(ctx.state['once'] as Tx)
      const { kind, nonce } = (await readJson(ctx.req)) as Asked
      ctx.set('x-nonce', nonce)
      const streamed = streamOf(kind, nonce)
      if (streamed) ctx.body = streamed
      else if (kind === 'double') {
        ctx.res.statusCode = 201
        ctx.res.end(JSON.stringify({ nonce }))
        ctx.status = 500
        ctx.body = { nonce, second: true }
      } else {
        if (kind === 'killed') ctx.req.socket.destroy()
        if (kind === 'destroyed') ctx.res.destroy()
        ctx.status = await statusOf(kind)
        ctx.body = { nonce }
      }
    })
    const callback = app.callback()
    return createServer((req, res) => void callback(req, res))
  },
  hono: async (once) => {
    const app = new Hono()
    app.onError((_error, c) => c.json({ failed: true }, 500))
    app.post('/soak', onHono(once, OPTIONS)(), async (c) => {
      await effect(c.var.once)
      const { kind, nonce } = await c.req.json<Asked>()
      const headers = { 'x-nonce': nonce }
      const streamed = streamOf(kind, nonce)
      if (streamed) return new Response(Readable.toWeb(streamed) as ReadableStream, { headers })
      if (kind === 'killed') (c.env as { incoming: IncomingMessage }).incoming.socket.destroy()
      if (kind === 'destroyed') return new Response(brokenAtOnce(), { headers })
      return c.json({ nonce }, (await statusOf(kind)) as 201, headers)
    })
    const listener = getRequestListener(app.fetch)
    return createServer((req, res) => void listener(req, res))
  },
}

async function effect({ tx, key }: Tx): Promise<void> {
  await tx.query('insert into effects (key) values ($1)', [key])
}

async function answerNode(req: IncomingMessage, res: ServerResponse, { kind, nonce }: Asked): Promise<void> {
  res.setHeader('x-nonce', nonce)
  const streamed = streamOf(kind, nonce)
  if (streamed) {
    streamed.on('error', (error) => res.destroy(error))
    streamed.pipe(res)
    return
  }
  const say = (status: number, body: object): void => {
    res.statusCode = status
    res.end(JSON.stringify(body))
  }
  if (kind === 'callback') {
    setTimeout(say, 5, 201, { nonce })
    return
  }
  if (kind === 'killed') req.socket.destroy()
  if (kind === 'destroyed') res.destroy()
  say(await statusOf(kind), { nonce })
  if (kind === 'double') say(500, { nonce, second: true })
}

async function statusOf(kind: Asked['kind']): Promise<number> {
  if (kind === 'throws') throw new Error('a mistake of the handler')
  if (kind === 'late') await sleep(DEADLINE_MS + LATE_MS)
  if (kind === 'refused') return 402
  return kind === 'failing' ? 503 : 201
}

function streamOf(kind: Asked['kind'], nonce: string): Readable | undefined {
  if (kind !== 'pieces' && kind !== 'broken') return undefined
  return Readable.from(piecesOf(nonce, kind === 'broken'))
}

async function* piecesOf(nonce: string, breaks: boolean): AsyncGenerator<Buffer> {
  yield Buffer.from(JSON.stringify({ nonce }))
  for (let i = 0; i < PIECES; i++) {
    if (breaks && i === 2) throw new Error('the stream breaks')
    yield Buffer.from(PIECE)
  }
}

function brokenAtOnce(): ReadableStream {
  return new ReadableStream({ pull: (controller) => controller.error(new Error('given up')) })
}
