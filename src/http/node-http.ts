import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duration } from '../duration.ts'
import { isOnceError } from '../errors.ts'
import type { Committed, Op, Operation, StreamOperation } from '../operation/types.ts'
import type { Once } from '../once/types.ts'
import type { Events } from '../outbox/event.ts'
import { type BatchedRoute, batchedOf } from './batched.ts'
import { bind, noHandler, optionsAndHandler } from './bound.ts'
import { type AnyOperation, type Exchange, writeAnswer } from './exchange.ts'
import { plainStreams } from './node-stream.ts'
import { serve } from './node.ts'
import type { IdempotencyOptions, RouteOptions, StreamRouteOptions } from './options.ts'
import { type Documented, documentsOf } from './documents.ts'
import type { ProtectedRoute } from './protected-route.ts'
import type { OnError } from './report.ts'

type Listener = (req: IncomingMessage, res: ServerResponse) => void
// oxlint-disable-next-line no-explicit-any -- typed where users write it
type Batched = BatchedRoute<IncomingMessage, any, any>
type Handler = (req: IncomingMessage, res: ServerResponse, op: AnyOperation) => unknown
/** A leased handler must return the result of `commit`, or a refusal: `return res.writeHead(402).end()`. */
type Returned<L> = L extends Duration ? Promise<Committed<unknown> | ServerResponse> : unknown

export interface NodeOptions extends IdempotencyOptions<IncomingMessage> {
  /**
   * Called with every error that a handler throws, and with every error of this package that is answered with 5xx. If
   * the handler threw, the client gets a 500 without details. Default: console.error
   */
  onError?: OnError<IncomingMessage>
}

export interface Idempotent<Tx, E extends Events> extends Documented {
  (handler: (req: IncomingMessage, res: ServerResponse, op: Operation<Tx, E>) => unknown): Listener
  <const L extends Duration | undefined = undefined>(
    options: RouteOptions<IncomingMessage, L, Tx, E>,
    handler: (req: IncomingMessage, res: ServerResponse, op: Op<L, Tx, E>) => Returned<L>,
  ): Listener
  /** A route that records its stream. */
  (
    options: StreamRouteOptions<IncomingMessage>,
    handler: (req: IncomingMessage, res: ServerResponse, op: StreamOperation<Tx, E>) => unknown,
  ): Listener
  /** A route whose effect is one statement per request; see `once.batched`. */
  batched<I = unknown>(work: BatchedRoute<IncomingMessage, I, E>): Listener
  batched<I = unknown>(options: RouteOptions<IncomingMessage>, work: BatchedRoute<IncomingMessage, I, E>): Listener
  /** Answers GET of `policyPath`. */
  readonly policyHandler: Listener
}

/**
 * Idempotent handlers for node:http.
 *
 * @example
 * createServer(idempotent(async (req, res, { tx }) => { … }))
 */
export function idempotency<Tx, E extends Events>(once: Once<Tx, E>, options: NodeOptions): Idempotent<Tx, E> {
  const bound = bind(once, options)
  const idempotent = (first: RouteOptions<IncomingMessage> | Handler, second?: Handler): Listener => {
    const [own, handler] = optionsAndHandler<RouteOptions<IncomingMessage>, Handler>(first, second)
    const protection = bound(own)
    return (req, res) => void serve(protection, exchangeOf(protection, req, res, handler))
  }
  const batched = (first: Batched | RouteOptions<IncomingMessage>, second?: Batched): Listener => {
    const [own, work] = optionsAndHandler<RouteOptions<IncomingMessage>, Batched>(first, second)
    const protection = bound(own, 'batched')
    const answer = batchedOf(protection, work)
    const handler: Handler = (_req, _res, op) => noHandler(op)
    return (req, res) => void serve(protection, exchangeOf(protection, req, res, handler), answer)
  }
  const documents = documentsOf(bound.plain)
  const policyHandler: Listener = (_req, res) => {
    res.setHeader('content-type', 'application/json').end(JSON.stringify(documents.policy()))
  }
  return Object.assign(idempotent, { ...documents, policyHandler, batched }) as unknown as Idempotent<Tx, E>
}

function exchangeOf<Tx, E extends Events>(
  protection: ProtectedRoute<Tx, E, IncomingMessage>,
  req: IncomingMessage,
  res: ServerResponse,
  handler: Handler,
): Exchange<IncomingMessage> {
  const exchange: Exchange<IncomingMessage> = {
    req,
    res,
    request: req,
    // connect and Express cut off the path of a mounted handler, and keep the whole URL here.
    target: (req as { originalUrl?: string }).originalUrl ?? req.url ?? '/',
    pattern: `${req.method} ${handler.name || 'handler'}`,
    seen: req as { body?: unknown; rawBody?: unknown },
    answersLater: false,
    handle: (op) => handler(req, res, op),
    streams: plainStreams((op, own) => handler(req, own, op)),
    handled: () => {},
    fail: (error) => {
      protection.tell(error, exchange)
      for (const name of ['content-encoding', 'content-length', 'content-type']) res.removeHeader(name)
      writeAnswer(res, { status: isOnceError(error) ? error.status : 500, headers: [], body: null, kept: true })
    },
    send: (answer) => writeAnswer(res, answer),
  }
  return exchange
}
