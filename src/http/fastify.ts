import type {
  FastifyReply,
  FastifyRequest,
  RawReplyDefaultExpression,
  RawRequestDefaultExpression,
  RawServerDefault,
  RouteGenericInterface,
  RouteHandlerMethod,
} from 'fastify'
import type { Duration } from '../duration.ts'
import type { Committed, Op, Operation, StreamOperation } from '../operation/types.ts'
import type { Once } from '../once/types.ts'
import type { Events } from '../outbox/event.ts'
import { type BatchedRoute, batchedOf } from './batched.ts'
import { bind, noHandler, optionsAndHandler } from './bound.ts'
import { FastifyExchange } from './fastify-exchange.ts'
import type { AnyOperation } from './exchange.ts'
import { passingOperation } from './passing.ts'
import { serve } from './node.ts'
import type { IdempotencyOptions, RouteOptions, StreamRouteOptions } from './options.ts'
import { type Documented, documentsOf } from './documents.ts'

// oxlint-disable-next-line no-explicit-any -- typed where users write it
type Batched = BatchedRoute<any, any, any>
type Handler = (request: FastifyRequest, reply: FastifyReply, op: AnyOperation) => unknown
type Returned<L> = L extends Duration ? Promise<Committed<unknown>> : unknown
type RouteHandler<G extends RouteGenericInterface> = RouteHandlerMethod<
  RawServerDefault,
  RawRequestDefaultExpression,
  RawReplyDefaultExpression,
  G
>

export interface Idempotent<Tx, E extends Events> extends Documented {
  <G extends RouteGenericInterface = RouteGenericInterface>(
    handler: (request: FastifyRequest<G>, reply: FastifyReply<G>, op: Operation<Tx, E>) => unknown,
  ): RouteHandler<G>
  <G extends RouteGenericInterface = RouteGenericInterface, const L extends Duration | undefined = undefined>(
    options: RouteOptions<FastifyRequest, L, Tx, E>,
    handler: (request: FastifyRequest<G>, reply: FastifyReply<G>, op: Op<L, Tx, E>) => Returned<L>,
  ): RouteHandler<G>
  /** A route that records its stream. */
  <G extends RouteGenericInterface = RouteGenericInterface>(
    options: StreamRouteOptions<FastifyRequest>,
    handler: (request: FastifyRequest<G>, reply: FastifyReply<G>, op: StreamOperation<Tx, E>) => unknown,
  ): RouteHandler<G>
  /** A route whose effect is one statement per request; see `once.batched`. */
  batched<I = unknown, G extends RouteGenericInterface = RouteGenericInterface>(
    work: BatchedRoute<FastifyRequest<G>, I, E>,
  ): RouteHandler<G>
  batched<I = unknown, G extends RouteGenericInterface = RouteGenericInterface>(
    options: RouteOptions<FastifyRequest>,
    work: BatchedRoute<FastifyRequest<G>, I, E>,
  ): RouteHandler<G>
  /** Answers GET of `policyPath`. */
  readonly policyHandler: () => Promise<unknown>
}

/**
 * Idempotent routes for Fastify 5.
 *
 * @example
 * app.post('/charges', idempotent(async (request, reply, { tx }) => reply.code(201).send(…)))
 */
export function idempotency<Tx, E extends Events>(
  once: Once<Tx, E>,
  options: IdempotencyOptions<FastifyRequest>,
): Idempotent<Tx, E> {
  const bound = bind(once, options)
  const idempotent = (first: RouteOptions<FastifyRequest> | Handler, second?: Handler): unknown => {
    const [own, handler] = optionsAndHandler<RouteOptions<FastifyRequest>, Handler>(first, second)
    const protection = bound(own)
    return function protectedRoute(request: FastifyRequest, reply: FastifyReply): unknown {
      // Fastify looks at the returned value to see whether a handler answers later.
      if (!protection.protects(request.method)) return handler(request, reply, passingOperation(request.method))
      const pattern = `${request.method} ${request.routeOptions.url ?? ''}`
      const exchange = new FastifyExchange<FastifyRequest>(request, reply, pattern, (op) => handler(request, reply, op))
      void serve(protection, exchange)
      return exchange.rest
    }
  }
  const batched = (first: Batched | RouteOptions<FastifyRequest>, second?: Batched): unknown => {
    const [own, work] = optionsAndHandler<RouteOptions<FastifyRequest>, Batched>(first, second)
    const protection = bound(own, 'batched')
    const answer = batchedOf(protection, work)
    return function batchedRoute(request: FastifyRequest, reply: FastifyReply): Promise<unknown> | undefined {
      const pattern = `${request.method} ${request.routeOptions.url ?? ''}`
      const exchange = new FastifyExchange<FastifyRequest>(request, reply, pattern, noHandler)
      void serve(protection, exchange, answer)
      return exchange.rest
    }
  }
  const documents = documentsOf(bound.plain)
  const policyHandler = async (): Promise<unknown> => documents.policy()
  return Object.assign(idempotent, { ...documents, policyHandler, batched }) as unknown as Idempotent<Tx, E>
}
