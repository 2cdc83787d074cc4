import { setImmediate as turn } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import Fastify, { type FastifyInstance } from 'fastify'
import { idempotency } from '../../../../src/entry/fastify.ts'
import type { Layer } from '../case.ts'
import type { Desk } from '../desk.ts'
import { type App, type AppPlan, type Bench, broughtByNode, nonceOf, OPTIONS, ROUTE_NAMES, ROUTES } from './app.ts'
import { COMPRESSED_BYTES_MIN, saidBefore } from './headers.ts'

export async function openFastify({ protocol, stack }: AppPlan, bench: Bench): Promise<App> {
  const options = { http2: protocol === 'http/2', keepAliveTimeout: 60_000 }
  const app = Fastify(options as { keepAliveTimeout: number }) as FastifyInstance
  for (const layer of stack) addLayer(app, layer, bench.desk)
  if (stack.includes('errors')) {
    app.setErrorHandler((error: { statusCode?: number; message: string }, _request, reply) =>
      reply.code(error.statusCode ?? 500).send({ handled: error.message }),
    )
  }
  const idempotent = bench.once && idempotency(bench.once, OPTIONS)
  for (const name of ROUTE_NAMES) {
    const handler = idempotent
      ? idempotent(ROUTES[name], (request, reply, op) => broughtByNode(bench, request.raw)(request, reply, op) as never)
      : (request: { raw: never }, reply: unknown) => broughtByNode(bench, request.raw)(request, reply, null)
    app.route({ method: ['POST', 'HEAD'], url: `/${name}`, handler: handler as never })
  }
  await app.listen({ port: 0, host: '127.0.0.1' })
  return { port: (app.server.address() as { port: number }).port }
}

/** More than a slow handler has left: what a timeout answers is under way when the handler is done, always. */
const SLOW_HOOK_TURNS = 20

/** Hooks: those before the route say their headers again on a replay, those after it saw the first answer. */
export function addLayer(app: FastifyInstance, layer: Layer, desk: Desk): void {
  app.addHook('onRequest', async (_request, reply) => {
    for (const [name, value] of saidBefore(layer)) void reply.header(name, value)
  })
  if (layer === 'session') {
    app.addHook('onRequest', async (_request, reply) => void reply.header('set-cookie', ['l-a=1', 'l-b=2']))
    app.addHook('onSend', async (_request, reply) => void reply.header('set-cookie', 's-c=3'))
  }
  if (layer === 'timeout') {
    app.addHook('onRequest', async (request, reply) => {
      desk.impatient(nonceOf(request.headers), () => {
        if (!reply.sent) void reply.code(503).send({ late: true })
      })
    })
  }
  if (layer === 'after') {
    app.addHook('onRequest', async (request) => void desk.note(nonceOf(request.headers)).begun++)
    app.addHook('onResponse', async (request) => void desk.note(nonceOf(request.headers)).ended++)
  }
  if (layer === 'envelope') app.addHook('preSerialization', async (_request, _reply, payload) => ({ data: payload }))
  if (layer === 'onSend') {
    app.addHook('onSend', async (_request, reply, payload) => {
      void reply.header('x-s-sent', 'yes')
      if (typeof payload !== 'string' || reply.hasHeader('content-length')) return payload
      return `${payload} `
    })
  }
  if (layer === 'failing onSend') {
    app.addHook('onSend', async (_request, reply, payload) => {
      for (let i = 0; i < SLOW_HOOK_TURNS; i++) await turn()
      if (reply.statusCode === 201) throw new Error('a slow hook')
      return payload
    })
  }
  if (layer === 'compression') {
    app.addHook('onSend', async (_request, reply, payload) => {
      const small = !(typeof payload === 'string' || Buffer.isBuffer(payload)) || payload.length < COMPRESSED_BYTES_MIN
      if (small || reply.hasHeader('content-length')) return payload
      void reply.header('content-encoding', 'gzip')
      return gzipSync(payload)
    })
  }
}
