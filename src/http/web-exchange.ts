import type { AnyOperation } from './exchange.ts'
import type { Log } from './report.ts'

/** One web-standard request, as a framework passes it. */
export interface WebExchange<Req> {
  readonly web: Request
  /** The argument of `scope()` and the other hooks. */
  readonly request: Req
  readonly pattern: string
  readonly rerunnable: boolean
  /** The host's logger. Absent: `console.error`. */
  readonly log?: Log
  /** Returns the whole body. Later code must still be able to read it. */
  body(bytesMax: number): Promise<Uint8Array>
  /** Runs the handler. `threw`: the framework turned an error into a Response. */
  handle(op: AnyOperation): Promise<Made>
  /** Calls the function that was passed to `commit`, for hosts whose handlers throw answers. */
  made?(make: () => unknown): Promise<Made>
  /** Called before the handler's own answer is sent. */
  released?(): void
}

export interface Made {
  readonly response: unknown
  readonly threw: boolean
  /** The error that the framework turned into the Response. */
  readonly error?: unknown
}
