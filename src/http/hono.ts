import type { Context, Handler, MiddlewareHandler } from 'hono'
import type { Duration } from '../duration.ts'
import type { Op, StreamOperation } from '../operation/types.ts'
import type { Once } from '../once/types.ts'
import type { Events } from '../outbox/event.ts'
import { onceError } from '../errors.ts'
import { type BatchedRoute, batchedOf } from './batched.ts'
import { bind, insideAnother, noHandler, optionsAndHandler } from './bound.ts'
import { collect, tooLarge } from './content-coding.ts'
import { isFinal } from '../operation/final.ts'
import { encodeForm } from './form-bytes.ts'
import type { IdempotencyOptions, RouteOptions, StreamRouteOptions } from './options.ts'
import { passingOperation } from './passing.ts'
import { type Documented, documentsOf } from './documents.ts'
import type { WebExchange } from './web-exchange.ts'
import { serveWeb } from './web-serve.ts'

/** The route knows the variables of other middleware. This type does not. */
type AnyContext = Context
// oxlint-disable-next-line no-explicit-any -- typed where users write it
type Batched = BatchedRoute<AnyContext, any, any>

export interface Idempotent<Tx, E extends Events> extends Documented {
  /** Middleware. The handler after it finds its operation in `c.var.once`. */
  <const L extends Duration | undefined = undefined>(
    options?: RouteOptions<AnyContext, L, Tx, E>,
  ): MiddlewareHandler<{ Variables: { once: Op<L, Tx, E> } }>
  /** Middleware of a route that records its stream. */
  (options: StreamRouteOptions<AnyContext>): MiddlewareHandler<{ Variables: { once: StreamOperation<Tx, E> } }>
  /** A route whose effect is one statement per request; see `once.batched`. No middleware runs after it. */
  batched<I = unknown>(work: BatchedRoute<AnyContext, I, E>): Handler
  batched<I = unknown>(options: RouteOptions<AnyContext>, work: BatchedRoute<AnyContext, I, E>): Handler
  /** Answers GET of `policyPath`. */
  readonly policyHandler: (c: AnyContext) => Response
}

/**
 * Idempotent routes for Hono.
 *
 * @example
 * app.post('/charges', idempotent(), async (c) => { const { tx } = c.var.once; … return c.json(charge, 201) })
 */
export function idempotency<Tx, E extends Events>(
  once: Once<Tx, E>,
  options: IdempotencyOptions<AnyContext>,
): Idempotent<Tx, E> {
  const bound = bind(once, options)
  const idempotent = (own?: RouteOptions<AnyContext>, work?: Batched): MiddlewareHandler => {
    const protection = bound(own, work && 'batched')
    const batched = work && batchedOf(protection, work)
    return async (c, next) => {
      if (!protection.protects(c.req.method)) {
        if (batched) noHandler(passingOperation(c.req.method))
        return next()
      }
      if (c.get('once') !== undefined) throw insideAnother()
      // Do not read `c.res`: Hono would create a response, and mix its headers into every later answer.
      const before = [...c.body(null).headers]
      let called = false
      let fresh = false
      const exchange: WebExchange<AnyContext> = {
        web: c.req.raw,
        request: c,
        pattern: `${c.req.method} ${patternOf(c)}`,
        // Hono allows only one call of `next`.
        rerunnable: false,
        body: (bytesMax) => bodyOf(c, bytesMax),
        handle: async (op) => {
          called = true
          c.set('once', op)
          await next()
          const { error } = c
          if (error && (isFinal(error) || protection.isTransient(error))) throw error
          if (error && (await protection.blamed(error))) throw error
          return { response: c.finalized ? c.res : undefined, threw: error !== undefined, error }
        },
        released: () => {
          fresh = true
        },
      }
      const response = await serveWeb(protection, exchange, batched).catch((error: unknown) => {
        if (called) forgetAnswer(c)
        // Hono's error handler answers, and its answer has the key, too.
        c.header(protection.route.headerKey, c.req.header(protection.route.headerKey))
        throw error
      })
      if (!fresh) addTo(response.headers, before)
      if (!called) return response
      // Hono would mix the headers of the discarded answer into the one that is sent.
      c.res = undefined
      c.res = response
      return undefined
    }
  }
  const batched = (first: Batched | RouteOptions<AnyContext>, second?: Batched): MiddlewareHandler =>
    idempotent(...optionsAndHandler<RouteOptions<AnyContext>, Batched>(first, second))
  const documents = documentsOf(bound.plain)
  const policyHandler = (c: AnyContext): Response => c.json(documents.policy())
  return Object.assign((own?: RouteOptions<AnyContext>) => idempotent(own), {
    ...documents,
    policyHandler,
    batched,
  }) as unknown as Idempotent<Tx, E>
}

/**
 * Adds the headers from before the route to an answer that is not the handler's, unless the answer sets them itself.
 */
function addTo(headers: Headers, before: readonly (readonly [string, string])[]): void {
  const said = new Set(headers.keys())
  const cookies = new Set(headers.getSetCookie())
  for (const [name, value] of before) {
    if (name === 'set-cookie' ? !cookies.has(value) : !said.has(name)) headers.append(name, value)
  }
}

/** The body failed, so the headers that describe it must not stay on the error handler's answer. */
function forgetAnswer(c: AnyContext): void {
  c.res = undefined
  c.finalized = false
  for (const name of ['content-encoding', 'content-length', 'content-type']) c.header(name)
}

/**
 * Returns the bytes, and leaves a copy for the handler. If a validator ran first, the bytes are in Hono's own cache.
 */
async function bodyOf({ req }: AnyContext, bytesMax: number): Promise<Uint8Array> {
  const { formData } = req.bodyCache
  if (formData !== undefined) return encodeForm(await Promise.resolve(formData), req.header('content-type'))
  if (Object.keys(req.bodyCache).length > 0) return new Uint8Array(await req.arrayBuffer())
  if (req.raw.bodyUsed) throw onceError('ONCE_BODY_UNSEEN')
  const { body } = req.raw.body ? req.raw.clone() : req.raw
  return body ? collect(body, bytesMax, () => tooLarge(bytesMax)) : new Uint8Array(0)
}

function patternOf({ req }: AnyContext): string {
  return (req as { routePath?: string }).routePath ?? ''
}
