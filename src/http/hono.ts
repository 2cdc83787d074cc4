import type { Context, MiddlewareHandler } from 'hono'
import type { Duration } from '../duration.ts'
import type { Once, Op } from '../once/types.ts'
import type { Events } from '../outbox/event.ts'
import { onceError } from '../errors.ts'
import { BODY_BYTES_MAX } from '../limits.ts'
import { bind } from './bound.ts'
import { collect, tooLarge } from './content-coding.ts'
import { isFinal } from '../once/final.ts'
import type { IdempotencyOptions, RouteOptions } from './options.ts'
import { type Documented, documentsOf } from './policy.ts'
import { serveWeb } from './web-serve.ts'

/** The variables of other middleware are known to the route, not here. */
type AnyContext = Context

export interface Idempotent<Tx, E extends Events> extends Documented {
  /** Middleware; the handler after it finds its operation in `c.var.once`. */
  <const L extends Duration | undefined = undefined>(
    options?: RouteOptions<AnyContext, L>,
  ): MiddlewareHandler<{ Variables: { once: Op<L, Tx, E> } }>
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
  const idempotent = (own?: RouteOptions<AnyContext>): MiddlewareHandler => {
    const protection = bound(own)
    return async (c, next) => {
      if (!protection.protects(c.req.method)) return next()
      const before = [...c.res.headers]
      let called = false
      const response = await serveWeb(protection, {
        web: c.req.raw,
        request: c,
        pattern: `${c.req.method} ${patternOf(c)}`,
        // Hono calls what comes next only once.
        rerunnable: false,
        body: () => bodyOf(c),
        handle: async (op) => {
          called = true
          c.set('once', op)
          await next()
          const { error } = c
          if (error && (isFinal(error) || protection.isTransient(error))) throw error
          return { response: c.finalized ? c.res : undefined, threw: error !== undefined }
        },
      })
      if (!called) return response
      // Hono would mix the headers of the answer that was discarded into the one that is sent.
      c.res = undefined
      for (const [name, value] of before) if (!response.headers.has(name)) response.headers.append(name, value)
      c.res = response
      return undefined
    }
  }
  const documents = documentsOf(bound())
  const policyHandler = (c: AnyContext): Response => c.json(documents.policy())
  return Object.assign(idempotent, { ...documents, policyHandler }) as unknown as Idempotent<Tx, E>
}

/** The bytes, with a copy left for the handler; a validator that ran first has left them in Hono's own cache. */
async function bodyOf({ req }: AnyContext): Promise<Uint8Array> {
  if (Object.keys(req.bodyCache).length > 0) return new Uint8Array(await req.arrayBuffer())
  if (req.raw.bodyUsed) throw onceError('ONCE_BODY_UNSEEN')
  const { body } = req.raw.body ? req.raw.clone() : req.raw
  return body ? collect(body, BODY_BYTES_MAX, tooLarge) : new Uint8Array(0)
}

function patternOf({ req }: AnyContext): string {
  return (req as { routePath?: string }).routePath ?? ''
}
