import type { Guard } from './guard.ts'
import type { Recoverer } from './recover.ts'
import type { StopOptions, WakeableRelay } from '../outbox/relay.ts'
import type { OwnNamespace } from '../store/namespaced/own-namespace.ts'
import type { Store, Transactions } from '../store/store.ts'
import type { Enclosing, EnclosingContext } from './enclosing.ts'
import type { LeaseHeartbeat } from './lease-heartbeat.ts'
import type { InFlightTable } from './in-flight.ts'
import type { Pace } from './pace.ts'
import type { Parts } from './parts.ts'
import type { ReplayCache } from './replay-cache.ts'
import type { RunningHandlers } from './running.ts'
import type { Settings } from './settings.ts'

/** What works in the background, as a close sees it. */
export interface StoppableWork {
  readonly kind: 'consumer' | 'relay'
  readonly name: string
  /** How much runs at this moment. */
  readonly underWay: number
  /** Its last stop did not wait for something. */
  readonly isCutShort?: boolean
  /** A server of the user's hands the work over: it is stopped after that server. */
  readonly isFed: boolean
  stop(options?: StopOptions): Promise<void>
}

/** What one instance shares between its operations. All state lives here, none in modules. */
export interface Core<Tx> extends Parts {
  readonly store: Store<Tx>
  /** The store's own; null: it has none, and every operation needs a lease. */
  readonly transactions: Transactions<Tx> | null
  /** What of the store is this instance's own: outbox, inbox and redrives are used through it. */
  readonly namespace: OwnNamespace<Tx>
  readonly settings: Settings
  readonly inFlight: InFlightTable
  readonly cache: ReplayCache
  readonly pace: Pace
  readonly enclosing: EnclosingContext
  /** Whose handle a `tx` is: `join` may be called with it where the context is lost. Shared by all stores. */
  readonly handles: WeakMap<object, Enclosing>
  readonly heartbeat: LeaseHeartbeat
  /** null: off. */
  readonly guard: Guard | null
  /** Told after each commit that published events. */
  readonly relays: Set<StoppableWork & Pick<WakeableRelay, 'wake'>>
  /** Stopped with the instance. */
  readonly workers: Set<StoppableWork>
  readonly running: RunningHandlers
  /** How routes finish what their clients abandoned, by the name under which the input was sealed. */
  readonly recoverers: Map<string, Recoverer>
  closed: boolean
}

/** Somebody else who wants to know of each commit that published events; stopped by somebody else, too. */
export function wokenBy(wake: () => void): StoppableWork & Pick<WakeableRelay, 'wake'> {
  return { kind: 'relay', name: 'outbox', underWay: 0, isFed: false, wake, stop: () => Promise.resolve() }
}

/** The relays of this process need not wait for their next look. */
export function wakeRelays<Tx>(core: Core<Tx>, events: number): void {
  if (events === 0) return
  for (const relay of core.relays) relay.wake()
}
