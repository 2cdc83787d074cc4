import type { Guard } from '../guard/guard.ts'
import type { WakeableRelay } from '../outbox/relay.ts'
import type { Store } from '../store/store.ts'
import type { EnclosingContext } from './enclosing.ts'
import type { Heart } from './heart.ts'
import type { InFlightTable } from './in-flight.ts'
import type { Pace } from './pace.ts'
import type { Parts } from './parts.ts'
import type { ReplayCache } from './replay-cache.ts'
import type { Settings } from './settings.ts'

/** What one instance shares between its operations. All state lives here, none in modules. */
export interface Core<Tx> extends Parts {
  readonly store: Store<Tx>
  readonly settings: Settings
  readonly inFlight: InFlightTable
  readonly cache: ReplayCache
  readonly pace: Pace
  readonly enclosing: EnclosingContext
  readonly heart: Heart
  /** null: off. */
  readonly guard: Guard | null
  /** Told after each commit that published events. */
  readonly relays: Set<Pick<WakeableRelay, 'wake' | 'stop'>>
  /** Stopped with the instance. */
  readonly workers: Set<{ stop(): Promise<void> }>
  closed: boolean
}

/** The relays of this process need not wait for their next look. */
export function wakeRelays<Tx>(core: Core<Tx>, events: number): void {
  if (events === 0) return
  for (const relay of core.relays) relay.wake()
}
