import { SERVER_IDLE_LOOK_MS } from '../limits.ts'
import type { Clock } from '../platform/clock.ts'

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
    const look = (): void => {
      if (this.#isEnded) return
      server.closeIdleConnections?.()
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
    this.#server.closeAllConnections?.()
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
    // It cannot be closed any further.
  }
}
