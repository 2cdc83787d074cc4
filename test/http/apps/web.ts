import { createServer } from 'node:http'
import { getRequestListener } from '@hono/node-server'
import { Hono } from 'hono'
import { HTTPException } from 'hono/http-exception'
import { idempotency as fetchIdempotency } from '../../../src/entry/fetch.ts'
import { idempotency as honoIdempotency } from '../../../src/entry/hono.ts'
import { type ContractAnswer, contractBatched, ContractError } from '../../../src/testing/http-contract/index.ts'
import { listen, type Started, type World } from '../world.ts'
import { responseOf } from './parts.ts'

export function startFetch({ once, routes }: World): Promise<Started> {
  const idempotent = fetchIdempotency(once, { scope: (request) => request.headers.get('x-user') ?? 'nobody' })
  const table = new Map<string, (request: Request) => Promise<Response> | Response>()
  for (const route of routes) {
    const handler =
      route.lease === undefined
        ? idempotent(route.options, async (request, op) => {
            const answer = await route.handle({ body: await request.text(), user: '' }, op)
            return made(answer)
          })
        : idempotent({ ...route.options, lease: route.lease }, async (request, op) => {
            const seen = { body: await request.text(), user: '' }
            await route.before(op, seen)
            return op.commit(async (inner) => responseOf(await route.commit(inner, seen)))
          })
    table.set(route.path, handler)
  }
  table.set('/batched', idempotent.batched(contractBatched))
  table.set(
    '/plain',
    idempotent(() => new Response('plain')),
  )
  table.set(idempotent.policyPath, idempotent.policyHandler)
  const answer = async (request: Request): Promise<Response> => {
    const handler = table.get(new URL(request.url).pathname)
    try {
      return handler ? await handler(request) : new Response(null, { status: 404 })
    } catch {
      return new Response('a host answers errors like this', { status: 500 })
    }
  }
  return listenWeb(answer)
}

export function startHono({ once, routes }: World): Promise<Started> {
  const idempotent = honoIdempotency(once, { scope: (c) => c.req.header('x-user') ?? 'nobody' })
  const app = new Hono()
  app.onError((error, c) => (error instanceof HTTPException ? error.getResponse() : c.json({ handled: true }, 500)))
  for (const route of routes) {
    if (route.lease === undefined) {
      app.on(['POST', 'PATCH', 'DELETE'], route.path, idempotent(route.options), async (c) => {
        try {
          const answer = await route.handle({ body: await c.req.text(), user: '' }, c.var.once)
          return made(answer)
        } catch (error) {
          throw error instanceof ContractError ? new HTTPException(error.status as 402) : error
        }
      })
    } else {
      const { lease } = route
      app.on(['POST', 'PATCH', 'DELETE'], route.path, idempotent({ ...route.options, lease }), async (c) => {
        const seen = { body: await c.req.text(), user: '' }
        await route.before(c.var.once, seen)
        return c.var.once.commit(async (inner) => responseOf(await route.commit(inner, seen)))
      })
    }
  }
  app.post('/batched', idempotent.batched(contractBatched))
  app.get('/plain', idempotent(), (c) => c.text('plain'))
  app.get(idempotent.policyPath, idempotent.policyHandler)
  return listenWeb(app.fetch)
}

function listenWeb(answer: (request: Request) => Response | Promise<Response>): Promise<Started> {
  const listener = getRequestListener(answer, { overrideGlobalObjects: false })
  return listen(createServer((req, res) => void listener(req, res)))
}

/** A handler in JavaScript may well return nothing. */
function made(answer: ContractAnswer | null): Response {
  const made: unknown = answer && responseOf(answer)
  return (made ?? undefined) as Response
}
