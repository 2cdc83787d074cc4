import type { Observe } from '../observe/signal.ts'
import type { Clock } from '../platform/clock.ts'
import type { Random } from '../platform/random.ts'
import type { Sink } from '../sink/sink.ts'
import type { Calls, Outbox } from '../store/outbox.ts'

/** What becomes of an event that failed for the last time. */
export type OnFailure = 'park' | 'block' | 'skip'

/** Everything a relay works with; checked. */
export interface RelayParts {
  readonly outbox: Outbox
  /** How other processes tell that events were committed, where that was asked for. */
  readonly calls?: Calls | undefined
  readonly sink: Sink
  readonly clock: Clock
  readonly random: Random
  readonly observe: Observe
  /** Of events that carry none. */
  readonly source: string
  readonly relay: string
  readonly attempts: number
  readonly onFailure: OnFailure
  readonly leaseMs: number
  /** Events of other types are passed: nobody sends them. */
  readonly wants: (type: string) => boolean
  /** Events per second; null: as many as the sink takes. */
  readonly rate: number | null
  /** Nobody starts a relay of an instance that was closed. */
  readonly closed: () => boolean
}
