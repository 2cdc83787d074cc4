import type { DefaultState, Middleware, ParameterizedContext } from 'koa'
import type { Duration } from '../duration.ts'
import type { Op } from '../operation/types.ts'
import type { Once } from '../once/types.ts'
import type { Events } from '../outbox/event.ts'
import type { Answer } from '../lifecycle/answer.ts'
import { type BatchedRoute, batchedOf } from './batched.ts'
import { bind, noHandler, optionsAndHandler } from './bound.ts'
import { deferred } from './deferred.ts'
import { asBuffer, type Exchange, writeAnswer } from './exchange.ts'
import { isHeld } from './held-response.ts'
import { Hold } from './hold.ts'
import { respond } from './koa-respond.ts'
import { serve } from './node.ts'
import { passingOperation } from './passing.ts'
import type { IdempotencyOptions, RouteOptions } from './options.ts'
import { type Documented, documentsOf } from './documents.ts'

// oxlint-disable-next-line no-explicit-any -- Koa's own default for what others added to the context
type Context = ParameterizedContext<DefaultState, any>
// oxlint-disable-next-line no-explicit-any -- typed where users write it
type Batched = BatchedRoute<Context, any, any>

export interface Idempotent<Tx, E extends Events> extends Documented {
  /** Middleware. The handler after it finds its operation in `ctx.state.once`. */
  <const L extends Duration | undefined = undefined>(
    options?: RouteOptions<Context, L, Tx, E>,
  ): Middleware<{ once: Op<L, Tx, E> }>
  /** A route whose effect is one statement per request; see `once.batched`. No middleware runs after it. */
  batched<I = unknown>(work: BatchedRoute<Context, I, E>): Middleware
  batched<I = unknown>(options: RouteOptions<Context>, work: BatchedRoute<Context, I, E>): Middleware
  /** Answers GET of `policyPath`. */
  readonly policyHandler: (ctx: Context) => void
}

/**
 * Idempotent routes for Koa. The answer of the middleware after `idempotent()` is held until the commit. So are errors.
 *
 * @example
 * router.post('/charges', idempotent(), async (ctx) => { const { tx } = ctx.state.once; … })
 */
export function idempotency<Tx, E extends Events>(
  once: Once<Tx, E>,
  options: IdempotencyOptions<Context>,
): Idempotent<Tx, E> {
  const bound = bind(once, options, 'Koa')
  const idempotent = (own?: RouteOptions<Context>, work?: Batched): Middleware => {
    const protection = bound(own, work && 'batched')
    const batched = work && batchedOf(protection, work)
    return (ctx, next) => {
      // The middleware around the route continues in the same turn, as without us, and may still add headers.
      if (!batched && !protection.protects(ctx.method)) {
        ctx.state['once'] = passingOperation(ctx.method)
        return next()
      }
      // Koa continues when the handler is done. The held response receives the answer.
      const rest = deferred<unknown>()
      let goesOn = false
      let called = false
      const go = (settle: () => void): void => {
        goesOn = true
        settle()
      }
      const exchange: Exchange<Context> = {
        req: ctx.req,
        res: ctx.res,
        request: ctx,
        target: ctx.originalUrl,
        pattern: `${ctx.method} ${patternOf(ctx)}`,
        seen: ctx.request as { body?: unknown; rawBody?: unknown },
        answersLater: true,
        // Koa reports its own errors here, so listeners of the application's `error` event get ours too.
        log: (_line, error) => ctx.app.emit('error', error, ctx),
        handle: (op) => {
          if (batched) return noHandler(op)
          ctx.state['once'] = op
          called = true
          keepAnswering(ctx)
          return next()
        },
        handled: (value) => go(() => rest.resolve(value)),
        answerNow: () => respond(ctx),
        unsay: () => {
          ctx.respond = true
        },
        // By then the outer middleware is done, so only Koa's own error handler is left.
        fail: (error) => (goesOn ? ctx.onerror(error as Error) : go(() => rest.reject(error))),
        send: (answer) => {
          if (goesOn) return writeAnswer(ctx.res, answer)
          // Send at once if the handler was called: while it runs, it could change an answer that waits for outer
          // middleware.
          if (called || ctx.headerSent) writeAnswer(ctx.res, answer)
          else answerLater(ctx, answer)
          go(() => rest.resolve(undefined))
        },
      }
      void serve(protection, exchange, batched)
      return rest.promise
    }
  }
  const batched = (first: Batched | RouteOptions<Context>, second?: Batched): Middleware =>
    idempotent(...optionsAndHandler<RouteOptions<Context>, Batched>(first, second))
  const documents = documentsOf(bound.plain)
  const policyHandler = (ctx: Context): void => {
    ctx.body = documents.policy()
  }
  return Object.assign((own?: RouteOptions<Context>) => idempotent(own), {
    ...documents,
    policyHandler,
    batched,
  }) as unknown as Idempotent<Tx, E>
}

/**
 * The middleware around the route continues before Koa answers, and may still add headers. The stored bytes do not
 * change.
 */
function answerLater(ctx: Context, answer: Answer): void {
  const hold = new Hold(ctx.res, 'buffer')
  const send = (): void => hold.replace(answer)
  // A handler may have taken the response from Koa, and not answered in time.
  ctx.respond = true
  // If outer middleware makes the answer unsendable, end the connection, not the process.
  hold.answered.then(send, send).catch(() => ctx.res.destroy())
  ctx.status = answer.status
  ctx.body = answer.body === null ? null : asBuffer(answer.body)
  ctx.status = answer.status
}

/** If a client resets its connection, Koa answers as if the handler had failed. Nobody would receive that answer. */
function keepAnswering(ctx: Context): void {
  const { onerror } = ctx
  const answerError = (error: Error): void => {
    const isReset = error === ctx.req.socket?.errored
    if (!isReset || !isHeld(ctx.res)) Reflect.apply(onerror, ctx, [error])
  }
  Object.assign(ctx, { onerror: answerError })
}

function patternOf(ctx: Context): string {
  const matched: unknown = ctx['_matchedRoute']
  return typeof matched === 'string' ? matched : ''
}
