import type { Events } from '../outbox/event.ts'
import type { Observe } from '../observe/signal.ts'
import type { Clock } from '../platform/clock.ts'
import type { Outbox } from '../store/outbox.ts'
import { OutboxSubscription } from './outbox-subscription.ts'
import type { EventsOf, PulledSource } from './source.ts'

/** What the outbox source takes from its instance. */
export interface OutboxSourceParts {
  readonly outbox: Outbox
  readonly clock: Clock
  readonly observe: Observe
  /** Of the catalogue. */
  readonly types?: readonly string[]
  /** Of events that carry none. */
  readonly source: string
  /** How long the shards of a process that died wait for another one. */
  readonly leaseMs: number
  /** How long events stay, after which none can come again. */
  readonly keptForMs: number
  /** Told after each commit of this process that published events; answers how to stop. */
  onPublished(wake: () => void): () => void
}

/**
 * The outbox table as a source: no broker, no relay. Processes of one consumer share the shards of the table, so events
 * of one aggregate are in one process at a time, in commit order.
 */
export function outboxSource<E extends Events>(parts: OutboxSourceParts): PulledSource<EventsOf<E>> {
  return {
    name: 'outbox',
    types: parts.types ?? [],
    kind: 'pulled',
    redeliversFor: `${parts.keptForMs}ms`,
    holdsFor: 'connection',
    features: { orders: true, counts: true, marksRedelivered: true, delays: true, positions: false },
    async open({ consumer }) {
      const subscription = new OutboxSubscription(parts, consumer)
      await subscription.start()
      return subscription
    },
  }
}
