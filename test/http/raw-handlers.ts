import { createServer, type ServerResponse } from 'node:http'
import express from 'express'
// @ts-expect-error -- the older Express has no types here
import express4 from 'express4'
import Fastify from 'fastify'
import Koa from 'koa'
import { idempotency as onExpress } from '../../src/entry/express.ts'
import { idempotency as onFastify } from '../../src/entry/fastify.ts'
import { idempotency as onKoa } from '../../src/entry/koa.ts'
import { idempotency as onNode } from '../../src/entry/node.ts'
import { listen, type QueryTx, type Started, type World } from './world.ts'

/** What handlers of these tests use of their operation. */
export interface Op {
  readonly tx: QueryTx
  readonly key: string
}
/** A handler that answers through Node's own response, on every framework. */
export type RawHandler = (res: ServerResponse, op: Op) => unknown
type Open = (world: World, handler: RawHandler) => Promise<Started>

const DEADLINE = '600ms'

export const ADAPTERS: Record<string, Open> = {
  node: (world, handler) => {
    const idempotent = onNode(world.once, { scope: 'global', deadline: DEADLINE, onError: () => {} })
    return listen(createServer(idempotent((_req, res, op) => handler(res, op))))
  },
  'express 5': (world, handler) => listen(createServer(expressApp(express, world, handler))),
  'express 4': (world, handler) => listen(createServer(expressApp(express4 as typeof express, world, handler))),
  fastify: async (world, handler) => {
    const app = Fastify({ forceCloseConnections: true })
    const idempotent = onFastify(world.once, { scope: 'global', deadline: DEADLINE })
    app.post(
      '/orders',
      idempotent(async (_request, reply, op) => {
        await handler(reply.raw, op)
        // Fastify would answer for a handler that has not.
        if (!reply.raw.headersSent) reply.hijack()
      }),
    )
    return { base: await app.listen({ port: 0, host: '127.0.0.1' }), close: () => app.close() }
  },
  koa: (world, handler) => {
    const app = new Koa()
    app.silent = true
    app.use(onKoa(world.once, { scope: 'global', deadline: DEADLINE })())
    app.use(async (ctx) => {
      ctx.respond = false
      await handler(ctx.res, ctx.state['once'] as Op)
    })
    return listen(createServer((req, res) => void app.callback()(req, res)))
  },
}

function expressApp(make: typeof express, world: World, handler: RawHandler): ReturnType<typeof express> {
  const app = make()
  app.set('env', 'test')
  app.post(
    '/orders',
    onExpress(world.once, { scope: 'global', deadline: DEADLINE })((_req, res, op) => handler(res, op)),
  )
  return app
}
