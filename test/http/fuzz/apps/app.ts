import type { IncomingHttpHeaders, IncomingMessage, Server, ServerResponse } from 'node:http'
import { createServer } from 'node:http'
import { createServer as createHttp2Server } from 'node:http2'
import type { AddressInfo } from 'node:net'
import type { MemoryTx } from '../../../../src/entry/testing.ts'
import type { Once } from '../../../../src/index.ts'
import type { Adapter, Layer, Protocol } from '../case.ts'
import type { Desk } from '../desk.ts'
import { handlerOf, type Handler, worldOf } from '../world.ts'

/** An app, plain or protected, that plays whatever handler a request brings along. */
export interface AppPlan {
  readonly adapter: Adapter
  readonly protocol: Protocol
  readonly stack: readonly Layer[]
}

export interface Bench {
  readonly desk: Desk
  /** null: the app is plain. */
  readonly once: Once<MemoryTx, {}> | null
}

export interface App {
  readonly port: number
}

/** The ways a route is protected: a request names one by its path. */
export const ROUTES = {
  case: {},
  /** For handlers that never answer, or too late. */
  brief: { deadline: '400ms' },
  /** The same, and the framework answers for us. */
  left: { deadline: '400ms', errors: 'framework' },
  heads: { methods: ['POST', 'HEAD'] },
  /** Every replay is read from the store: a hook wants to see it. */
  stored: { onReplay: () => undefined },
} as const
export type RouteName = keyof typeof ROUTES
export const ROUTE_NAMES = Object.keys(ROUTES) as RouteName[]

export const OPTIONS = { scope: 'global', deadline: '20s' } as const

export function nonceOf(headers: IncomingHttpHeaders): string {
  return String(headers['x-nonce'])
}

/** The handler of a request. `abandon` ends its connection. */
export function broughtBy(bench: Bench, header: (name: string) => string, abandon: () => void): Handler {
  const nonce = header('x-nonce')
  bench.desk.note(nonce).runs++
  const world = worldOf(bench.desk, nonce, bench.once ? null : abandon)
  return handlerOf(Buffer.from(header('x-handler'), 'base64').toString(), world)
}

export function broughtByNode(bench: Bench, req: IncomingMessage): Handler {
  const abandon = (): void => {
    const { stream } = req as unknown as { stream?: { close(code: number): void } }
    if (stream) stream.close(2)
    else req.socket.destroy()
  }
  return broughtBy(bench, (name) => String(req.headers[name]), abandon)
}

type Listener = (req: IncomingMessage, res: ServerResponse) => void

export async function listening(protocol: Protocol, listener: Listener): Promise<App> {
  const server =
    protocol === 'http/2'
      ? (createHttp2Server((req, res) => listener(req as never, res as never)) as unknown as Server)
      : createServer({ keepAliveTimeout: 60_000 }, listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return { port: (server.address() as AddressInfo).port }
}

export function routeOf(url: string | undefined): RouteName {
  const name = (url ?? '').slice(1) as RouteName
  return ROUTE_NAMES.includes(name) ? name : 'case'
}
