import type { Observe } from '../observe/signal.ts'
import type { Tracing } from '../observe/tracing.ts'
import type { Clock } from '../platform/clock.ts'
import type { Random } from '../platform/random.ts'
import type { Sink } from '../sink/sink.ts'
import type { Calls, Outbox } from '../store/outbox.ts'

/** What to do with an event that failed for the last time. */
export type OnFailure = 'park' | 'block' | 'skip'

/** The checked options of a relay, and the parts that it works with. */
export interface RelayParts {
  readonly outbox: Outbox
  /** How other processes report that events were committed, if the option `listen` is set. */
  readonly calls?: Calls | undefined
  readonly sink: Sink
  readonly clock: Clock
  readonly random: Random
  readonly observe: Observe
  /** Null: there is no tracer. */
  readonly tracing?: Tracing | null
  /** The `source` of events that do not name one. */
  readonly source: string
  readonly relay: string
  readonly attempts: number
  readonly onFailure: OnFailure
  readonly leaseMs: number
  /** Events of other types are passed over, and not sent. */
  readonly wants: (type: string) => boolean
  /** Events per second. Null: as many as the sink accepts. */
  readonly rate: number | null
  /** Whether the instance was closed. Its relays cannot be started then. */
  readonly closed: () => boolean
}
