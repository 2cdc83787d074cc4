import type { NextFunction, Request, RequestHandler, Response } from 'express'
import type { Duration } from '../duration.ts'
import type { Committed, Once, Op, Operation } from '../once/types.ts'
import type { Events } from '../outbox/event.ts'
import { bind, optionsAndHandler } from './bound.ts'
import { type AnyOperation, writeAnswer } from './exchange.ts'
import { serve } from './node.ts'
import type { IdempotencyOptions, RouteOptions } from './options.ts'
import { type Documented, documentsOf } from './policy.ts'

type Params = Request['params']
type Handler = (req: Request, res: Response, op: AnyOperation) => unknown
/** A leased handler returns what `commit` gave it: one that forgets does not compile. */
type Returned<L> = L extends Duration ? Promise<Committed<unknown>> : unknown

export interface Idempotent<Tx, E extends Events> extends Documented {
  <P = Params>(handler: (req: Request<P>, res: Response, op: Operation<Tx, E>) => unknown): RequestHandler<P>
  <P = Params, const L extends Duration | undefined = undefined>(
    options: RouteOptions<Request, L>,
    handler: (req: Request<P>, res: Response, op: Op<L, Tx, E>) => Returned<L>,
  ): RequestHandler<P>
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
    return (req, res, next: NextFunction) => {
      serve(protection, {
        req,
        res,
        request: req,
        target: req.originalUrl,
        pattern: patternOf(req),
        seen: req as { body?: unknown; rawBody?: unknown },
        answersLater: false,
        handle: (op) => handler(req, res, op),
        handled: () => {},
        fail: next,
        send: (answer) => writeAnswer(res, answer),
      })
    }
  }
  const documents = documentsOf(bound())
  const policyHandler = (_req: Request, res: Response): void => void res.json(documents.policy())
  return Object.assign(idempotent, { ...documents, policyHandler }) as unknown as Idempotent<Tx, E>
}

/** For body parsers that run first: `express.json({ verify: keepRawBody })` lets the fingerprint see the bytes. */
export function keepRawBody(req: object, _res: unknown, bytes: Uint8Array): void {
  Object.assign(req, { rawBody: bytes })
}

function patternOf(req: Request): string {
  const route: unknown = req.route
  const path = (route as { path?: unknown } | undefined)?.path
  return `${req.method} ${req.baseUrl}${typeof path === 'string' ? path : ''}`
}
