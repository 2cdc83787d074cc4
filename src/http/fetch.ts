import type { Duration } from '../duration.ts'
import { onceError } from '../errors.ts'
import type { Op, Operation, Result, StreamOperation } from '../operation/types.ts'
import type { Once } from '../once/types.ts'
import type { Events } from '../outbox/event.ts'
import { type BatchedRoute, batchedOf } from './batched.ts'
import { bind, noHandler, optionsAndHandler } from './bound.ts'
import { collect, tooLarge } from './content-coding.ts'
import type { AnyOperation } from './exchange.ts'
import type { IdempotencyOptions, RouteOptions, StreamRouteOptions } from './options.ts'
import { passingOperation } from './passing.ts'
import { thrownAnswer } from './thrown.ts'
import { type Documented, documentsOf } from './documents.ts'
import type { Made } from './web-exchange.ts'
import { serveWeb } from './web-serve.ts'

// oxlint-disable-next-line no-explicit-any -- typed where users write it
type Batched = BatchedRoute<Request, any, any>
type Handler = (request: Request, op: AnyOperation, ...rest: never[]) => Promise<Response> | Response

export interface Idempotent<Tx, E extends Events> extends Documented {
  <Rest extends unknown[]>(
    handler: (request: Request, op: Operation<Tx, E>, ...rest: Rest) => Promise<Response> | Response,
  ): (request: Request, ...rest: Rest) => Promise<Response>
  <Rest extends unknown[], const L extends Duration | undefined = undefined>(
    options: RouteOptions<Request, L, Tx, E>,
    handler: (request: Request, op: Op<L, Tx, E>, ...rest: Rest) => Promise<Result<L, Response>>,
  ): (request: Request, ...rest: Rest) => Promise<Response>
  /** A route that records its stream. */
  <Rest extends unknown[]>(
    options: StreamRouteOptions<Request>,
    handler: (request: Request, op: StreamOperation<Tx, E>, ...rest: Rest) => Promise<Response> | Response,
  ): (request: Request, ...rest: Rest) => Promise<Response>
  /** A route whose effect is one statement per request; see `once.batched`. */
  batched<I = unknown>(work: BatchedRoute<Request, I, E>): (request: Request) => Promise<Response>
  batched<I = unknown>(
    options: RouteOptions<Request>,
    work: BatchedRoute<Request, I, E>,
  ): (request: Request) => Promise<Response>
  /** Answers GET of `policyPath`. */
  readonly policyHandler: () => Response
}

/**
 * Idempotent handlers for every host that uses `Request` and `Response`: Next.js route handlers, Bun, Deno, workers.
 *
 * @example
 * export const POST = idempotent(async (request, { tx }, { params }) => Response.json(…, { status: 201 }))
 */
export function idempotency<Tx, E extends Events>(
  once: Once<Tx, E>,
  options: IdempotencyOptions<Request>,
): Idempotent<Tx, E> {
  const bound = bind(once, options)
  const idempotent = (first: RouteOptions<Request> | Handler, second?: Handler) => {
    const [own, handler] = optionsAndHandler<RouteOptions<Request>, Handler>(first, second)
    const protection = bound(own)
    return async (request: Request, ...rest: never[]): Promise<Response> => {
      if (!protection.protects(request.method)) return handler(request, passingOperation(request.method), ...rest)
      const again = rerunnable(request)
      return serveWeb(protection, {
        web: request,
        request,
        pattern: `${request.method} ${handler.name || 'handler'}`,
        rerunnable: true,
        body: again.body,
        handle: (op) => handled(() => handler(again.next(), op, ...rest)),
        made: handled,
      })
    }
  }
  const batched = (first: Batched | RouteOptions<Request>, second?: Batched) => {
    const [own, work] = optionsAndHandler<RouteOptions<Request>, Batched>(first, second)
    const protection = bound(own, 'batched')
    const answer = batchedOf(protection, { ...work, respond: work.respond && returned(work.respond) })
    return async (request: Request): Promise<Response> => {
      if (!protection.protects(request.method)) noHandler(passingOperation(request.method))
      const exchange = {
        web: request,
        request,
        pattern: `${request.method} batched`,
        rerunnable: true,
        body: rerunnable(request).body,
        handle: async (op: AnyOperation) => ({ response: noHandler(op), threw: false }),
      }
      return serveWeb(protection, exchange, answer)
    }
  }
  const documents = documentsOf(bound.plain)
  const policyHandler = (): Response => Response.json(documents.policy())
  return Object.assign(idempotent, { ...documents, policyHandler, batched }) as unknown as Idempotent<Tx, E>
}

/** A thrown answer would roll the effect back, but the host would report success. */
function returned(respond: Batched['respond']): Batched['respond'] {
  return async (...args) => {
    try {
      return await respond(...args)
    } catch (error) {
      if (!thrownAnswer(error)) throw error
      throw onceError('ONCE_ANSWER_INVALID', {
        detail: 'respond() threw its answer; on a batched route, return the answer',
        cause: error,
      })
    }
  }
}

async function handled(run: () => unknown): Promise<Made> {
  try {
    return { response: await run(), threw: false }
  } catch (error) {
    const response = thrownAnswer(error)
    if (!response) throw error
    return { response, threw: response.status >= 400 }
  }
}

/** The first run gets the request itself, with all that its host added. A later run gets a copy. */
function rerunnable(request: Request): { body(bytesMax: number): Promise<Uint8Array>; next(): Request } {
  const isRead = request.bodyUsed
  const spare = request.body && !isRead ? request.clone() : request
  let bytes: Uint8Array | undefined
  let runs = 0
  return {
    body: async (bytesMax) => {
      if (isRead) throw onceError('ONCE_BODY_UNSEEN')
      bytes = spare.body ? await collect(spare.body, bytesMax, () => tooLarge(bytesMax)) : new Uint8Array(0)
      return bytes
    },
    next: () => {
      if (runs++ === 0) return request
      const { method, headers, signal, url } = request
      const Like: typeof Request = Reflect.get(request, 'constructor')
      return new Like(url, { method, headers, signal, body: bytes?.byteLength ? bytes : null })
    },
  }
}
