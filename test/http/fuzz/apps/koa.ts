import { gzipSync } from 'node:zlib'
import Koa, { type Middleware } from 'koa'
import { idempotency } from '../../../../src/entry/koa.ts'
import type { Layer } from '../case.ts'
import type { Desk } from '../desk.ts'
import {
  type App,
  type AppPlan,
  type Bench,
  broughtByNode,
  listening,
  nonceOf,
  OPTIONS,
  ROUTE_NAMES,
  routeOf,
  ROUTES,
} from './app.ts'
import { COMPRESSED_BYTES_MIN, saidBefore } from './headers.ts'

export function openKoa({ protocol, stack }: AppPlan, bench: Bench): Promise<App> {
  const app = new Koa()
  app.silent = true
  for (const layer of stack) app.use(layerOf(layer, bench.desk))
  if (bench.once) {
    const idempotent = idempotency(bench.once, OPTIONS)
    const routes = Object.fromEntries(ROUTE_NAMES.map((name) => [name, idempotent(ROUTES[name])]))
    app.use((ctx, next) => (routes[routeOf(ctx.url)] as Middleware)(ctx, next))
  }
  app.use((ctx) => broughtByNode(bench, ctx.req)(ctx, bench.once ? ctx.state['once'] : null) as never)
  const listener = app.callback()
  return listening(protocol, (req, res) => void listener(req, res))
}

/** All of it is around the route, and goes on on replays, too. */
function layerOf(layer: Layer, desk: Desk): Middleware {
  switch (layer) {
    case 'session':
      return (ctx, next) => {
        ctx.cookies.set('l-sid', '1')
        return next()
      }
    case 'compression':
      return async (ctx, next) => {
        await next()
        const body: unknown = ctx.body
        if (!(typeof body === 'string' || Buffer.isBuffer(body)) || body.length < COMPRESSED_BYTES_MIN) return
        const { type } = ctx
        ctx.set('content-encoding', 'gzip')
        ctx.body = gzipSync(body)
        ctx.type = type
      }
    case 'timeout':
      return async (ctx, next) => {
        const rest = next()
        rest.catch(() => {})
        const late = new Promise<void>((resolve) =>
          desk.impatient(nonceOf(ctx.headers), () => {
            ctx.status = 503
            ctx.body = { late: true }
            resolve()
          }),
        )
        await Promise.race([rest, late])
      }
    case 'errors':
      return async (ctx, next) => {
        try {
          await next()
        } catch (error) {
          const { status, message } = error as { status?: number; message: string }
          ctx.status = status ?? 500
          ctx.body = { handled: message }
        }
      }
    case 'after':
      return async (ctx, next) => {
        const note = desk.note(nonceOf(ctx.headers))
        note.begun++
        try {
          await next()
        } finally {
          note.ended++
          ctx.set('x-l-after', 'yes')
        }
      }
    default:
      return (ctx, next) => {
        for (const [name, value] of saidBefore(layer)) ctx.set(name, value)
        return next()
      }
  }
}
