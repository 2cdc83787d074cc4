import { Readable } from 'node:stream'
import type { DefaultState, Middleware, ParameterizedContext } from 'koa'
import type { Duration } from '../duration.ts'
import type { Once, Op } from '../once/types.ts'
import type { Events } from '../outbox/event.ts'
import { onceError } from '../errors.ts'
import { bind } from './bound.ts'
import { deferred } from './deferred.ts'
import { writeAnswer } from './exchange.ts'
import { serve } from './node.ts'
import type { IdempotencyOptions, RouteOptions } from './options.ts'
import { type Documented, documentsOf } from './policy.ts'

// oxlint-disable-next-line no-explicit-any -- Koa's own default for what others added to the context
type Context = ParameterizedContext<DefaultState, any>

export interface Idempotent<Tx, E extends Events> extends Documented {
  /** Middleware; the handler after it finds its operation in `ctx.state.once`. */
  <const L extends Duration | undefined = undefined>(
    options?: RouteOptions<Context, L>,
  ): Middleware<{ once: Op<L, Tx, E> }>
  /** Answers GET of `policyPath`. */
  readonly policyHandler: (ctx: Context) => void
}

/**
 * Idempotent routes for Koa. What the middleware after it answers is held until the commit, errors included.
 *
 * @example
 * router.post('/charges', idempotent(), async (ctx) => { const { tx } = ctx.state.once; … })
 */
export function idempotency<Tx, E extends Events>(
  once: Once<Tx, E>,
  options: IdempotencyOptions<Context>,
): Idempotent<Tx, E> {
  const bound = bind(once, options)
  const idempotent = (own?: RouteOptions<Context>): Middleware => {
    const protection = bound(own)
    return (ctx, next) => {
      // Koa goes on when the handler is done, and its answer ends in the held response.
      const rest = deferred<unknown>()
      serve(protection, {
        req: ctx.req,
        res: ctx.res,
        request: ctx,
        target: ctx.originalUrl,
        pattern: `${ctx.method} ${patternOf(ctx)}`,
        seen: ctx.request as { body?: unknown; rawBody?: unknown },
        answersLater: true,
        handle: (op) => {
          ctx.state['once'] = op
          return next()
        },
        handled: rest.resolve,
        answerNow: () => respond(ctx),
        fail: rest.reject,
        send: (answer) => {
          ctx.respond = false
          writeAnswer(ctx.res, answer)
          rest.resolve(undefined)
        },
      })
      return rest.promise
    }
  }
  const documents = documentsOf(bound())
  const policyHandler = (ctx: Context): void => {
    ctx.body = documents.policy()
  }
  return Object.assign(idempotent, { ...documents, policyHandler }) as unknown as Idempotent<Tx, E>
}

/** What Koa does with a context once its middleware is done, for an answer that is given inside `commit`. */
function respond(ctx: Context): void {
  const { res } = ctx
  const body: unknown = ctx.body
  if (body === undefined && ctx.status === 404) {
    throw onceError('ONCE_NO_ANSWER', {
      detail: 'Set ctx.body or ctx.status inside commit: it commits with the answer',
    })
  }
  ctx.respond = false
  if (body === undefined || body === null || ctx.status === 204 || ctx.status === 304) res.end()
  else if (typeof body === 'string' || body instanceof Uint8Array) res.end(body)
  else if (body instanceof Readable) body.on('error', (error) => ctx.onerror(error)).pipe(res)
  else if (body instanceof Blob) Readable.from(body.stream()).pipe(res)
  else if (body instanceof ReadableStream) Readable.from(body).pipe(res)
  else res.end(JSON.stringify(body))
}

function patternOf(ctx: Context): string {
  const matched: unknown = ctx['_matchedRoute']
  return typeof matched === 'string' ? matched : ''
}
