import type { Events } from '../outbox/event.ts'
import type { Observe } from '../observe/signal.ts'
import type { Clock } from '../platform/clock.ts'
import type { Outbox } from '../store/outbox.ts'

/** The parts of its instance that the outbox source uses. */
export interface OutboxSourceParts {
  readonly outbox: Outbox
  readonly clock: Clock
  readonly observe: Observe
  /** The types of the catalogue. */
  readonly types?: readonly string[]
  /** The catalogue: how bytes are decoded. */
  readonly events?: Events
  /** The `source` of events that do not name one. */
  readonly source: string
  /** How long other processes wait before they take the shards of a process that died. */
  readonly leaseMs: number
  /** How long events stay. Later they cannot be delivered again. */
  readonly keptForMs: number
  /**
   * Calls back after each commit of this process that published events. `due`: held events may be due, not only new
   * events. Returns a function that stops this.
   */
  onPublished(wake: (options?: { readonly due: boolean }) => void): () => void
}
