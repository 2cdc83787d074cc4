import type { Duration } from '../duration.ts'
import { onceError } from '../errors.ts'
import type { Once } from '../once/types.ts'
import type { Events } from '../outbox/event.ts'
import { invalid } from '../options.ts'
import { required } from '../store/lacking.ts'
import type { AnyOperation } from './exchange.ts'
import type { IdempotencyOptions, RouteOptions } from './options.ts'
import { ProtectedRoute } from './protected-route.ts'
import { checkRoute } from './route.ts'

/** The routes of one service. */
export interface Bound<Tx, E extends Events, Req> {
  /**
   * Creates one route, with its own options and the shared ones. Refuses a store that cannot serve the route, at the
   * start.
   */
  (own?: RouteOptions<Req, Duration | undefined>, need?: 'atomic' | 'batched'): ProtectedRoute<Tx, E, Req>
  /** The shared options alone, for documents. */
  readonly plain: ProtectedRoute<Tx, E, Req>
}

/**
 * Options shared by the routes of one service. They are checked at once, and again with the options of each route.
 * `unrecorded`: the name of a framework whose adapter cannot record streams.
 */
export function bind<Tx, E extends Events, Req>(
  once: Once<Tx, E>,
  shared: IdempotencyOptions<Req>,
  unrecorded?: string,
): Bound<Tx, E, Req> {
  const plain = new ProtectedRoute(once, checkRoute(shared))
  const { store, transactions } = plain.instance.core
  const bound = (own?: RouteOptions<Req, Duration | undefined>, need: 'atomic' | 'batched' = 'atomic') => {
    const made = own === undefined ? plain : new ProtectedRoute(once, checkRoute(shared, own))
    if (made.route.leaseMs === null) required(store, transactions, need)
    if (made.route.streams === 'record') required(store, store.streams, 'streams')
    if (made.route.streams === 'record' && unrecorded !== undefined) throw cannotRecord(unrecorded)
    if (made.route.streams === 'record' && need === 'batched')
      throw invalid("a batched route cannot have streams: 'record'")
    return made
  }
  return Object.assign(bound, { plain })
}

/** The refusal of recorded streams by an adapter that cannot record them. */
export function cannotRecord(framework: string): Error {
  return onceError('ONCE_UNSUPPORTED', {
    detail: `The adapter for ${framework} cannot record streams: leave streams: 'record' out`,
  })
}

/** The handler of a batched route for methods that are not protected. */
export function noHandler(op: AnyOperation): unknown {
  return 'tx' in op ? op.tx : undefined
}

/** One request is one operation. An inner route would wait for the outer one. */
export function insideAnother(): Error {
  const detail = 'A protected route is inside another protected route: remove one idempotent()'
  return onceError('ONCE_UNSUPPORTED', { detail })
}

/** `idempotent(handler)` or `idempotent(options, handler)`. */
export function optionsAndHandler<O, H>(first: O | H, second: H | undefined): readonly [O | undefined, H] {
  return second === undefined ? [undefined, first as H] : [first as O, second]
}
