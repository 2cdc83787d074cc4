import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duration } from '../duration.ts'
import type { Committed, Once, Op, Operation } from '../once/types.ts'
import type { Events } from '../outbox/event.ts'
import { bind, optionsAndHandler } from './bound.ts'
import { type AnyOperation, writeAnswer } from './exchange.ts'
import { serve } from './node.ts'
import type { IdempotencyOptions, RouteOptions } from './options.ts'
import { type Documented, documentsOf } from './policy.ts'

type Listener = (req: IncomingMessage, res: ServerResponse) => void
type Handler = (req: IncomingMessage, res: ServerResponse, op: AnyOperation) => unknown
type Returned<L> = L extends Duration ? Promise<Committed<unknown>> : unknown

export interface NodeOptions extends IdempotencyOptions<IncomingMessage> {
  /** Told about everything a handler throws; the client gets a bare 500. Default: console.error */
  onError?: (error: unknown, req: IncomingMessage) => void
}

export interface Idempotent<Tx, E extends Events> extends Documented {
  (handler: (req: IncomingMessage, res: ServerResponse, op: Operation<Tx, E>) => unknown): Listener
  <const L extends Duration | undefined = undefined>(
    options: RouteOptions<IncomingMessage, L>,
    handler: (req: IncomingMessage, res: ServerResponse, op: Op<L, Tx, E>) => Returned<L>,
  ): Listener
  /** Answers GET of `policyPath`. */
  readonly policyHandler: Listener
}

/**
 * Idempotent handlers for node:http.
 *
 * @example
 * createServer(idempotent(async (req, res, { tx }) => { … }))
 */
export function idempotency<Tx, E extends Events>(
  once: Once<Tx, E>,
  { onError = report, ...options }: NodeOptions,
): Idempotent<Tx, E> {
  const bound = bind(once, options)
  const idempotent = (first: RouteOptions<IncomingMessage> | Handler, second?: Handler): Listener => {
    const [own, handler] = optionsAndHandler<RouteOptions<IncomingMessage>, Handler>(first, second)
    const protection = bound(own)
    return (req, res) => {
      serve(protection, {
        req,
        res,
        request: req,
        target: req.url ?? '/',
        pattern: `${req.method} ${handler.name || 'handler'}`,
        seen: req as { body?: unknown; rawBody?: unknown },
        answersLater: false,
        handle: (op) => handler(req, res, op),
        handled: () => {},
        fail: (error) => {
          onError(error, req)
          writeAnswer(res, { status: 500, headers: [], body: null, kept: true })
        },
        send: (answer) => writeAnswer(res, answer),
      })
    }
  }
  const documents = documentsOf(bound())
  const policyHandler: Listener = (_req, res) => {
    res.setHeader('content-type', 'application/json').end(JSON.stringify(documents.policy()))
  }
  return Object.assign(idempotent, { ...documents, policyHandler }) as unknown as Idempotent<Tx, E>
}

function report(error: unknown): void {
  console.error(error)
}
