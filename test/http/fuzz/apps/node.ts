import type { IncomingMessage, ServerResponse } from 'node:http'
import { idempotency } from '../../../../src/entry/node.ts'
import {
  type App,
  type AppPlan,
  type Bench,
  broughtByNode,
  listening,
  OPTIONS,
  ROUTE_NAMES,
  routeOf,
  ROUTES,
} from './app.ts'
import { connectLayers } from './connect.ts'

type Listener = (req: IncomingMessage, res: ServerResponse) => void

export function openNode({ protocol, stack }: AppPlan, bench: Bench): Promise<App> {
  const serve = bench.once ? guarded(bench) : plain(bench)
  const layers = connectLayers(stack, bench.desk)
  return listening(protocol, (req, res) => {
    const go = (index: number): void => {
      const layer = layers[index]
      if (layer) layer(req, res, () => go(index + 1))
      else serve(req, res)
    }
    go(0)
  })
}

function guarded(bench: Bench): Listener {
  const idempotent = idempotency(bench.once as NonNullable<Bench['once']>, { ...OPTIONS, onError: () => {} })
  const routes = Object.fromEntries(
    ROUTE_NAMES.map((name) => [
      name,
      idempotent(ROUTES[name], (req, res, op) => broughtByNode(bench, req)(req, res, op) as never),
    ]),
  )
  return (req, res) => routes[routeOf(req.url)]?.(req, res)
}

/** What a program without a framework does about errors. */
function plain(bench: Bench): Listener {
  return (req, res) => {
    const failed = (): void => {
      if (res.headersSent) {
        res.destroy()
        return
      }
      res.statusCode = 500
      res.end()
    }
    try {
      const returned: unknown = broughtByNode(bench, req)(req, res, null)
      if (returned instanceof Promise) returned.catch(failed)
    } catch {
      failed()
    }
  }
}
