import 'reflect-metadata'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { Controller, Module, Post, Req, Res } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { ExpressAdapter } from '@nestjs/platform-express'
import { FastifyAdapter } from '@nestjs/platform-fastify'
import express, { type Request, type Response } from 'express'
// @ts-expect-error -- the older Express has no types here
import express4 from 'express4'
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import Koa from 'koa'
import { idempotency as onExpress } from '../../../src/entry/express.ts'
import { idempotency as onFastify } from '../../../src/entry/fastify.ts'
import { idempotency as onKoa } from '../../../src/entry/koa.ts'
import { Idempotent, OnceModule, Op } from '../../../src/entry/nest.ts'
import { idempotency as onNode } from '../../../src/entry/node.ts'
import { listen, type QueryTx, type Started, type World } from '../world.ts'

export interface RawOp {
  readonly tx: QueryTx
  readonly key: string
}

/** What stands around a route, in the words of node:http. */
export type Layer = (req: IncomingMessage, res: ServerResponse) => void
/** A handler that answers through Node's own response. */
export type RawHandler = (res: ServerResponse, op: RawOp) => Promise<unknown>
export type OpenAround = (world: World, layer: Layer, handler: RawHandler, own?: OwnOptions) => Promise<Started>
export interface OwnOptions {
  readonly errors?: 'framework'
}

export const AROUND_DEADLINE_MS = 600
const DEADLINE = `${AROUND_DEADLINE_MS}ms` as const
const OPTIONS = { scope: 'global', deadline: DEADLINE, inFlight: { waitFor: '2s' } } as const

/** The same handler and the same layer around it, on everything that stands on node:http: POST /orders. */
export const AROUND: Record<string, OpenAround> = {
  node: (world, layer, handler, own) => {
    const idempotent = onNode(world.once, { ...OPTIONS, ...own, onError: () => {} })
    const route = idempotent((_req, res, op) => handler(res, op))
    return listen(
      createServer((req, res) => {
        layer(req, res)
        route(req, res)
      }),
    )
  },
  'express 5': (...given) => listen(createServer(expressApp(express, ...given))),
  'express 4': (...given) => listen(createServer(expressApp(express4 as typeof express, ...given))),
  fastify: async (world, layer, handler, own) => {
    const app = Fastify({ forceCloseConnections: true })
    surround(app, layer)
    app.post(
      '/orders',
      onFastify(world.once, { ...OPTIONS, ...own })(async (_request, reply, op) => answerRaw(reply, handler, op)),
    )
    return { base: await app.listen({ port: 0, host: '127.0.0.1' }), close: () => app.close() }
  },
  koa: (world, layer, handler, own) => {
    const app = new Koa()
    app.silent = true
    app.use((ctx, next) => {
      layer(ctx.req, ctx.res)
      return next()
    })
    app.use(onKoa(world.once, { ...OPTIONS, ...own })())
    app.use(async (ctx) => {
      ctx.respond = false
      try {
        await handler(ctx.res, ctx.state['once'] as RawOp)
      } catch (error) {
        ctx.respond = true
        throw error
      }
    })
    return listen(createServer((req, res) => void app.callback()(req, res)))
  },
  'nest on express': (...given) => nest(new ExpressAdapter(), ...given),
  'nest on fastify': (...given) => nest(new FastifyAdapter(), ...given),
}

function expressApp(
  make: typeof express,
  ...[world, layer, handler, own]: Parameters<OpenAround>
): ReturnType<typeof express> {
  const app = make()
  app.set('env', 'test')
  app.use((req, res, next) => {
    layer(req, res)
    next()
  })
  app.post(
    '/orders',
    onExpress(world.once, { ...OPTIONS, ...own })((_req, res, op) => handler(res, op)),
  )
  return app
}

async function nest(
  adapter: ExpressAdapter | FastifyAdapter,
  ...[world, layer, handler, own]: Parameters<OpenAround>
): Promise<Started> {
  class Orders {
    create(_req: Request | FastifyRequest, res: Response | FastifyReply, op: RawOp): Promise<unknown> {
      return 'raw' in res ? answerRaw(res, handler, op) : handler(res, op)
    }
  }
  for (const [index, decorate] of [Req(), Res(), Op()].entries()) decorate(Orders.prototype, 'create', index)
  const descriptor = Object.getOwnPropertyDescriptor(Orders.prototype, 'create') as PropertyDescriptor
  for (const each of [Post(), Idempotent()]) each(Orders.prototype, 'create', descriptor)
  Controller('orders')(Orders)
  // oxlint-disable-next-line no-extraneous-class -- a module of Nest is a class
  class App {}
  Module({ imports: [OnceModule.forRoot({ once: world.once, ...OPTIONS, ...own })], controllers: [Orders] })(App)
  const app = await NestFactory.create(App, adapter as never, { logger: false, forceCloseConnections: true })
  if (adapter instanceof FastifyAdapter) surround(adapter.getInstance(), layer)
  else {
    app.use((req: Request, res: Response, next: () => void) => {
      layer(req, res)
      next()
    })
  }
  await app.listen(0, '127.0.0.1')
  return { base: (await app.getUrl()).replace('[::1]', '127.0.0.1'), close: () => app.close() }
}

function surround(app: FastifyInstance, layer: Layer): void {
  app.addHook('onRequest', (request, reply, done) => {
    layer(request.raw, reply.raw)
    done()
  })
}

async function answerRaw(reply: FastifyReply, handler: RawHandler, op: RawOp): Promise<void> {
  await handler(reply.raw, op)
  // Fastify would answer for a handler that has not.
  if (!reply.raw.headersSent) reply.hijack()
}
