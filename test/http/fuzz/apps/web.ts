import { getRequestListener } from '@hono/node-server'
import { Hono, type MiddlewareHandler } from 'hono'
import { compress } from 'hono/compress'
import { cors } from 'hono/cors'
import { HTTPException } from 'hono/http-exception'
import { secureHeaders } from 'hono/secure-headers'
import { idempotency as onFetch } from '../../../../src/entry/fetch.ts'
import { idempotency as onHono } from '../../../../src/entry/hono.ts'
import type { Layer } from '../case.ts'
import type { Desk } from '../desk.ts'
import type { Handler } from '../world.ts'
import {
  type App,
  type AppPlan,
  type Bench,
  broughtBy,
  listening,
  OPTIONS,
  ROUTE_NAMES,
  routeOf,
  ROUTES,
} from './app.ts'

type Answer = (request: Request) => Response | Promise<Response>

export function openHono({ protocol, stack }: AppPlan, bench: Bench): Promise<App> {
  const app = new Hono()
  for (const layer of stack) {
    const middleware = honoLayer(layer, bench.desk)
    if (middleware) app.use(middleware)
  }
  if (stack.includes('errors')) {
    app.onError((error, c) =>
      c.json({ handled: error.message }, (error instanceof HTTPException ? error.status : 500) as 500),
    )
  } else app.onError((error, c) => (error instanceof HTTPException ? error.getResponse() : c.text('failed', 500)))
  const idempotent = bench.once && onHono(bench.once, OPTIONS)
  for (const name of ROUTE_NAMES) {
    const before: MiddlewareHandler[] = idempotent ? [idempotent(ROUTES[name]) as MiddlewareHandler] : []
    // Hono answers HEAD with what stands under GET.
    app.on(['POST', 'GET'], [`/${name}`], ...before, (async (c) =>
      brought(bench, c.req.raw)(c, idempotent ? c.get('once') : null)) as MiddlewareHandler)
  }
  return listeningWeb(protocol, app.fetch)
}

function honoLayer(layer: Layer, desk: Desk): MiddlewareHandler | undefined {
  switch (layer) {
    case 'helmet':
      return secureHeaders()
    case 'cors':
      return cors({ origin: 'https://shop.example', credentials: true })
    case 'compression':
      return compress({ threshold: 100 })
    case 'session':
      return async (c, next) => {
        c.header('set-cookie', 'l-a=1', { append: true })
        c.header('set-cookie', 'l-b=2', { append: true })
        await next()
      }
    case 'form':
      return async (c, next) => {
        if (c.req.method === 'POST') await c.req.formData()
        await next()
      }
    case 'after':
      return async (c, next) => {
        const note = desk.note(c.req.header('x-nonce') ?? '')
        note.begun++
        await next()
        note.ended++
        c.header('x-l-after', 'yes')
      }
    default:
      return undefined
  }
}

/** A host that knows thrown answers, as Remix does. */
export function openFetch({ protocol, stack }: AppPlan, bench: Bench): Promise<App> {
  const idempotent = bench.once && onFetch(bench.once, OPTIONS)
  const plain: Answer = async (request) => brought(bench, request)(request, null) as Promise<Response>
  const routes = Object.fromEntries(
    ROUTE_NAMES.map((name) => [
      name,
      idempotent
        ? idempotent(ROUTES[name], async (request, op) => brought(bench, request)(request, op) as never)
        : plain,
    ]),
  )
  let answer: Answer = async (request) => {
    try {
      return await (routes[routeOf(new URL(request.url).pathname)] as Answer)(request)
    } catch (error) {
      if (error instanceof Response) return error
      throw error
    }
  }
  for (const layer of stack.toReversed()) answer = webLayer(layer, answer, bench.desk)
  return listeningWeb(protocol, async (request) => {
    try {
      return await answer(request)
    } catch {
      return new Response('failed', { status: 500 })
    }
  })
}

function webLayer(layer: Layer, inner: Answer, desk: Desk): Answer {
  if (layer === 'errors') {
    return async (request) => {
      try {
        return await inner(request)
      } catch (error) {
        return Response.json({ handled: (error as Error).message }, { status: 500 })
      }
    }
  }
  return async (request) => {
    const note = desk.note(request.headers.get('x-nonce') ?? '')
    note.begun++
    const response = await Promise.resolve(inner(request)).finally(() => void note.ended++)
    response.headers.append('x-l-after', 'yes')
    return response
  }
}

function brought(bench: Bench, request: Request): Handler {
  return broughtBy(
    bench,
    (name) => request.headers.get(name) ?? '',
    () => {},
  )
}

function listeningWeb(protocol: AppPlan['protocol'], answer: Answer): Promise<App> {
  const listener = getRequestListener(answer, { overrideGlobalObjects: false })
  return listening(protocol, (req, res) => void listener(req, res))
}
