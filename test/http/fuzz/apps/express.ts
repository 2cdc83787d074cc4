import express from 'express'
// @ts-expect-error -- the older Express has no types here; those of the newer one are close enough
import express4 from 'express4'
import { idempotency } from '../../../../src/entry/express.ts'
import { type App, type AppPlan, type Bench, broughtByNode, listening, OPTIONS, ROUTE_NAMES, ROUTES } from './app.ts'
import { connectLayers } from './connect.ts'

export function openExpress({ adapter, protocol, stack }: AppPlan, bench: Bench): Promise<App> {
  const make = adapter === 'express 4' ? (express4 as typeof express) : express
  const app = make()
  for (const layer of stack) {
    if (layer === 'form') app.use(make.json())
    else for (const middleware of connectLayers([layer], bench.desk)) app.use(middleware as express.RequestHandler)
  }
  const idempotent = bench.once && idempotency(bench.once, OPTIONS)
  for (const name of ROUTE_NAMES) {
    const handler: express.RequestHandler = idempotent
      ? idempotent(ROUTES[name], (req, res, op) => broughtByNode(bench, req)(req, res, op) as never)
      : (req, res, next) => {
          // Express 4 leaves rejections to the process; everybody hands them on.
          const returned: unknown = broughtByNode(bench, req)(req, res, null)
          if (returned instanceof Promise) returned.catch(next)
        }
    app.post(`/${name}`, handler)
    app.head(`/${name}`, handler)
  }
  if (stack.includes('errors')) {
    app.use(((error: { status?: number; message: string }, _req, res, next) => {
      if (res.headersSent) next(error)
      else res.status(error.status ?? 500).json({ handled: error.message })
    }) as express.ErrorRequestHandler)
  }
  return listening(protocol, app)
}
