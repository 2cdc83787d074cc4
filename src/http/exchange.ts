import type { IncomingMessage, ServerResponse } from 'node:http'
import { onceError } from '../errors.ts'
import type { Answer } from '../lifecycle/answer.ts'
import type { LeasedOperation, Operation } from '../once/types.ts'
import type { Events } from '../outbox/event.ts'

// oxlint-disable-next-line no-explicit-any -- each adapter types it for its users
export type AnyOperation = Operation<any, Events> | LeasedOperation<any, Events>

/** One request and its response, in the words of a framework on top of node:http. */
export interface Exchange<Req> {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  /** What `scope()` and the other hooks are called with. */
  readonly request: Req
  /** The URL before any router cut a prefix off. */
  readonly target: string
  readonly pattern: string
  /** What a body parser left, and the raw bytes where somebody kept them. */
  readonly seen: { readonly body?: unknown; readonly rawBody?: unknown }
  /** The framework answers after the handler has returned: a return without an answer is no mistake. */
  readonly answersLater: boolean
  /** Calls the handler; `answered` tells when its answer is held. */
  handle(op: AnyOperation, answered: () => Promise<unknown>): unknown
  /** The handler is done and the framework may go on: it was called for this request. */
  handled(value: unknown): void
  /** The framework's own error handling. */
  fail(error: unknown): void
  /** Sends an answer that is not the handler's. */
  send(answer: Answer): void
}

/** Writes an answer of ours over whatever stood before it. */
export function writeAnswer(res: ServerResponse, { status, headers, body }: Answer): void {
  if (res.headersSent || res.destroyed) return
  res.statusCode = status
  const set = new Set<string>()
  for (const [name, value] of headers) {
    if (set.has(name)) res.appendHeader(name, value)
    else res.setHeader(name, value)
    set.add(name)
  }
  if (body === null || status === 204 || status === 304) res.end()
  else res.end(body)
}

export function noAnswer(pattern: string): Error {
  return onceError('ONCE_NO_ANSWER', {
    detail: `${pattern} returned without a response. Send one, or return the promise that does`,
  })
}
