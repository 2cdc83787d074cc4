import { createServer } from 'node:http'
import express from 'express'
// @ts-expect-error -- the older Express has no types here; those of the newer one are close enough
import express4 from 'express4'
import { idempotency } from '../../../src/entry/express.ts'
import { contractBatched } from '../../../src/testing/http-contract/index.ts'
import { listen, type Started, type World } from '../world.ts'
import { textOf, userOf, writeTo } from './parts.ts'

export const startExpress5 = (world: World): Promise<Started> => start(express, world)
export const startExpress4 = (world: World): Promise<Started> => start(express4, world)

function start(make: typeof express, { once, routes }: World): Promise<Started> {
  const app = make()
  const idempotent = idempotency(once, { scope: (req) => userOf(req.headers) })
  app.use(make.json({ strict: false }))
  for (const route of routes) {
    const handler =
      route.lease === undefined
        ? idempotent(route.options, async (req, res, op) => {
            const answer = await route.handle({ body: textOf(req.body), user: userOf(req.headers) }, op)
            if (answer) writeTo(res, answer)
          })
        : idempotent({ ...route.options, lease: route.lease }, async (req, res, op) => {
            const request = { body: textOf(req.body), user: userOf(req.headers) }
            await route.before(op, request)
            return op.commit(async (inner) => writeTo(res, await route.commit(inner, request)))
          })
    app.post(route.path, handler)
    app.patch(route.path, handler)
    app.delete(route.path, handler)
  }
  app.post('/batched', idempotent.batched(contractBatched))
  app.get(
    '/plain',
    idempotent((_req, res) => res.send('plain')),
  )
  app.get(idempotent.policyPath, idempotent.policyHandler)
  app.use(((error: { status?: number }, _req, res, _next) => {
    res.status(error.status ?? 500).json({ handled: true })
  }) as express.ErrorRequestHandler)
  return listen(createServer(app))
}
