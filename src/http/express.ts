import type { NextFunction, Request, RequestHandler, Response } from 'express'
import type { Duration } from '../duration.ts'
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

type Params = Request['params']
// oxlint-disable-next-line no-explicit-any -- typed where users write it
type Batched = BatchedRoute<Request, any, any>
type Handler = (req: Request, res: Response, op: AnyOperation) => unknown
/** A leased handler must return the result of `commit`, or a refusal: `return res.status(402).json(…)`. */
type Returned<L> = L extends Duration ? Promise<Committed<unknown> | Response> : unknown

export interface Idempotent<Tx, E extends Events> extends Documented {
  <P = Params>(handler: (req: Request<P>, res: Response, op: Operation<Tx, E>) => unknown): RequestHandler<P>
  <P = Params, const L extends Duration | undefined = undefined>(
    options: RouteOptions<Request, L, Tx, E>,
    handler: (req: Request<P>, res: Response, op: Op<L, Tx, E>) => Returned<L>,
  ): RequestHandler<P>
  /** A route that records its stream. */
  <P = Params>(
    options: StreamRouteOptions<Request>,
    handler: (req: Request<P>, res: Response, op: StreamOperation<Tx, E>) => unknown,
  ): RequestHandler<P>
  /** A route whose effect is one statement per request; see `once.batched`. */
  batched<I = unknown>(work: BatchedRoute<Request, I, E>): RequestHandler
  batched<I = unknown>(options: RouteOptions<Request>, work: BatchedRoute<Request, I, E>): RequestHandler
  /** Answers GET of `policyPath`. */
  readonly policyHandler: (req: Request, res: Response) => void
}

/**
 * Idempotent routes for Express 4 and 5.
 *
 * @example
 * const idempotent = idempotency(once, { scope: (req) => req.user.id })
 * app.post('/charges', idempotent(async (req, res, { tx, publish }) => { … }))
 */
export function idempotency<Tx, E extends Events>(
  once: Once<Tx, E>,
  options: IdempotencyOptions<Request>,
): Idempotent<Tx, E> {
  const bound = bind(once, options)
  const idempotent = (first: RouteOptions<Request> | Handler, second?: Handler): RequestHandler => {
    const [own, handler] = optionsAndHandler<RouteOptions<Request>, Handler>(first, second)
    const protection = bound(own)
    return (req, res, next) => void serve(protection, exchangeOf(req, res, next, handler))
  }
  const batched = (first: Batched | RouteOptions<Request>, second?: Batched): RequestHandler => {
    const [own, work] = optionsAndHandler<RouteOptions<Request>, Batched>(first, second)
    const protection = bound(own, 'batched')
    const answer = batchedOf(protection, work)
    const handler: Handler = (_req, _res, op) => noHandler(op)
    return (req, res, next) => void serve(protection, exchangeOf(req, res, next, handler), answer)
  }
  const documents = documentsOf(bound.plain)
  const policyHandler = (_req: Request, res: Response): void => void res.json(documents.policy())
  return Object.assign(idempotent, { ...documents, policyHandler, batched }) as unknown as Idempotent<Tx, E>
}

function exchangeOf(req: Request, res: Response, next: NextFunction, handler: Handler): Exchange<Request> {
  return {
    req,
    res,
    request: req,
    target: req.originalUrl,
    pattern: patternOf(req),
    seen: req as { body?: unknown; rawBody?: unknown },
    answersLater: false,
    handle: (op) => handler(req, res, op),
    streams: plainStreams((op, own) => handler(req, own as Response, op)),
    handled: () => {},
    // A handler that throws undefined has failed, but `next(undefined)` would call the next route.
    fail: (error) => next(error || new Error('The handler threw an empty value')),
    send: (answer) => writeAnswer(res, answer),
  }
}

/** Keeps the raw bytes for the fingerprint if a body parser runs first: `express.json({ verify: keepRawBody })`. */
export function keepRawBody(req: object, _res: unknown, bytes: Uint8Array): void {
  Object.assign(req, { rawBody: bytes })
}

function patternOf(req: Request): string {
  const route: unknown = req.route
  const path = (route as { path?: unknown } | undefined)?.path
  // Express has only the matched path of a mounted router. That path may hold a secret, so it is not shown.
  const mounted = req.baseUrl === '' ? '' : '*'
  return `${req.method} ${mounted}${typeof path === 'string' ? path : ''}`
}
