import { SERVER_IDLE_LOOK_MS } from '../limits.ts'
import type { Clock } from '../platform/clock.ts'

/** How long the first request may take to arrive on a new connection. */
const SERVER_UNUSED_MS = 1_000

/** A server of `node:http`, or any object whose `close` takes a callback or returns a promise. */
export interface ClosableServer {
  close(callback?: (error?: Error) => void): unknown
  closeIdleConnections?(): void
  closeAllConnections?(): void
  // oxlint-disable-next-line no-explicit-any -- as node:http declares it
  prependListener?(event: string, listener: (...args: any[]) => void): unknown
}

/** Accepts no more connections, answers the accepted requests, and ends keep-alive connections. */
export class ClosingServer {
  readonly ended: Promise<void>
  readonly #server: ClosableServer
  #cancel = (): void => {}
  #isEnded = false

  constructor(server: ClosableServer, clock: Clock) {
    this.#server = server
    // Ask clients to close kept connections. If a connection is cut while a request is on its way, the request fails.
    server.prependListener?.('request', (_request: unknown, response: { shouldKeepAlive: boolean }) => {
      response.shouldKeepAlive = false
    })
    this.ended = closed(server).then(() => {
      this.#isEnded = true
      this.#cancel()
    })
    const unusedAt = clock.now() + SERVER_UNUSED_MS
    const unused = new WeakSet<ServedSocket>()
    const look = (): void => {
      if (this.#isEnded) return
      attempt(() => server.closeIdleConnections?.())
      if (clock.now() >= unusedAt) endUnused(server, unused)
      this.#cancel = clock.after(SERVER_IDLE_LOOK_MS, look)
    }
    look()
  }

  get isEnded(): boolean {
    return this.#isEnded
  }

  /** Ends the remaining connections, answered or not. */
  cut(): void {
    this.#cancel()
    attempt(() => this.#server.closeAllConnections?.())
  }
}

/** The server may be a wrapper that throws. The close goes on without it. */
function attempt(work: () => void): void {
  try {
    work()
  } catch {
    // Its connections end with the process.
  }
}

/** The part of `net.Socket` that is used here. */
interface ServedSocket {
  readonly server?: unknown
  readonly bytesRead?: number
  destroy?(): void
}

/**
 * Node counts a connection that never carried a request as busy. Load balancers and browsers open such connections in
 * advance, and each would delay the close until its time limit. Only Node has this list. A connection is ended when it
 * is found unused a second time, because a busy process may not have read its request yet.
 */
function endUnused(server: ClosableServer, unused: WeakSet<ServedSocket>): void {
  const { _getActiveHandles: handles } = globalThis.process as { _getActiveHandles?: () => readonly ServedSocket[] }
  for (const socket of handles?.() ?? []) {
    if (socket.server !== server || socket.bytesRead !== 0) continue
    if (unused.has(socket)) socket.destroy?.()
    unused.add(socket)
  }
}

/** A server that was closed before reports an error, which is not a failure here. */
async function closed(server: ClosableServer): Promise<void> {
  try {
    await new Promise<unknown>((resolve, reject) => {
      const answer = server.close(() => resolve(undefined)) as Promise<unknown> | undefined
      if (typeof answer?.then === 'function') answer.then(resolve, reject)
    })
  } catch {
    // The server is closed already.
  }
}
