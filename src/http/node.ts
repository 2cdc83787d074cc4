import type { IncomingMessage, ServerResponse } from 'node:http'
import { onceError } from '../errors.ts'
import type { Answer } from '../lifecycle/answer.ts'
import type { LeasedOperation, Operation } from '../once/types.ts'
import type { Events } from '../outbox/event.ts'
import { digestOf, type Incoming, keyOf } from './incoming.ts'
import { bodyOf } from './node-body.ts'
import { NodeRun } from './node-run.ts'
import { passingOperation } from './passing.ts'
import { commitFailure, type Protection } from './protection.ts'

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

/** From the request to its answer, for everything that stands on node:http. Never rejects. */
export async function serve<Tx, E extends Events, Req>(
  protection: Protection<Tx, E, Req>,
  exchange: Exchange<Req>,
): Promise<void> {
  const { req } = exchange
  if (!protection.protects(req.method ?? '')) return passBy(exchange)
  let run: NodeRun<Tx, E, Req> | undefined
  try {
    const { route } = protection
    const key = keyOf(route, req.headersDistinct[route.headerKey])
    const incoming = await incomingOf(protection, exchange)
    const request = protection.request(incoming, key, false)
    run = new NodeRun(protection, exchange)
    const reply =
      route.leaseMs === null
        ? await protection.atomic(incoming, request, run.produce)
        : await protection.leased(incoming, request, run.produceLeased)
    if (reply.kind === 'fresh') run.release()
    else exchange.send(reply.answer)
  } catch (error) {
    // Once the handler was called its own errors are answered; what still gets here broke the commit.
    const problem = protection.problem(run?.called ? commitFailure(error) : error)
    const answer = (): void => (problem ? exchange.send(problem) : exchange.fail(error))
    if (run) run.discard(answer)
    else answer()
  }
}

async function incomingOf<Tx, E extends Events, Req>(
  { route }: Protection<Tx, E, Req>,
  { req, request, target, pattern, seen }: Exchange<Req>,
): Promise<Incoming<Req>> {
  const header = (name: string): string | undefined => {
    const value = req.headers[name]
    return typeof value === 'string' ? value : value?.join(', ')
  }
  const base = { method: req.method ?? '', target, pattern, request, header }
  if (route.digest && digestOf(base) !== undefined) {
    return { ...base, body: undefined, parsed: undefined, digested: true }
  }
  return { ...base, ...(await bodyOf(req, seen)) }
}

/** Methods that are not protected: the handler runs as if we were not here. */
async function passBy<Req>(exchange: Exchange<Req>): Promise<void> {
  try {
    exchange.handled(await exchange.handle(passingOperation(exchange.req.method ?? ''), never))
  } catch (error) {
    exchange.fail(error)
  }
}

const never = (): Promise<never> => new Promise(() => {})

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
