import type { Guard } from './guard.ts'
import type { Recoverer } from './recover.ts'
import type { StopOptions, WakeableRelay } from '../outbox/relay.ts'
import type { OwnNamespace } from '../store/namespaced/own-namespace.ts'
import type { AnswerCache } from '../store/answer-cache.ts'
import type { Store, Transactions } from '../store/store.ts'
import type { Enclosing, EnclosingContext } from './enclosing.ts'
import type { LeaseHeartbeat } from './lease-heartbeat.ts'
import type { InFlightTable } from './in-flight.ts'
import type { Pace } from './pace.ts'
import type { Parts } from './parts.ts'
import type { ReplayCache } from './replay-cache.ts'
import type { RetentionTerms } from './retention-terms.ts'
import type { RunningHandlers } from './running.ts'
import type { Settings } from './settings.ts'

/** A background task, as `close` sees it. */
export interface StoppableWork {
  readonly kind: 'consumer' | 'relay'
  readonly name: string
  /** The number of running items. */
  readonly underWay: number
  /** Its last stop left unfinished work. */
  readonly isCutShort?: boolean
  /** The user's server hands over the work, so this task is stopped after that server. */
  readonly isFed: boolean
  stop(options?: StopOptions): Promise<void>
}

/** The state that the operations of one instance share. No state is kept in modules. */
export interface Core<Tx> extends Parts {
  readonly store: Store<Tx>
  /** The store's transactions. Null: it has none, and every operation needs a lease. */
  readonly transactions: Transactions<Tx> | null
  /** The instance's own namespace in the store. Outbox, inbox and redrives are used through it. */
  readonly namespace: OwnNamespace<Tx>
  readonly settings: Settings
  readonly inFlight: InFlightTable
  readonly cache: ReplayCache
  /** The cache that processes share. Null: the store has none. */
  readonly shared: AnswerCache | null
  readonly pace: Pace
  readonly enclosing: EnclosingContext
  /**
   * The operation of each `tx` handle, because `join` may be called with a `tx` where the async context is lost. Shared
   * by all stores.
   */
  readonly handles: WeakMap<object, Enclosing>
  readonly heartbeat: LeaseHeartbeat
  /** null: off. */
  readonly guard: Guard | null
  /** Notified after each commit that published events. */
  readonly relays: Set<StoppableWork & Pick<WakeableRelay, 'wake'>>
  /** Stopped with the instance. */
  readonly workers: Set<StoppableWork>
  readonly running: RunningHandlers
  /** The `recover` functions of routes, by the name under which the input was stored. */
  readonly recoverers: Map<string, Recoverer>
  /** What all routes so far promise about keys. Null: there is no route. */
  promised: RetentionTerms | null
  /** `close` was called: no background work begins. Operations are accepted until `closed`, because the server answers. */
  closing: boolean
  closed: boolean
}

/** Another task that must be notified of each commit that published events. Its owner stops it. */
export function wokenBy(wake: WakeableRelay['wake']): StoppableWork & Pick<WakeableRelay, 'wake'> {
  return { kind: 'relay', name: 'outbox', underWay: 0, isFed: false, wake, stop: () => Promise.resolve() }
}

/** Wakes the relays of this process, so that they need not wait for their next poll. */
export function wakeRelays<Tx>(core: Core<Tx>, events: number): void {
  if (events === 0) return
  for (const relay of core.relays) relay.wake()
}
