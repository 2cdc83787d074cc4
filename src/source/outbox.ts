import type { Events } from '../outbox/event.ts'
import type { OutboxSourceParts } from './outbox-parts.ts'
import { OutboxSubscription } from './outbox-subscription.ts'
import type { EventsOf, PulledSource } from './source.ts'

/**
 * The outbox table as a source: no broker, no relay. Processes of one consumer share the shards of the table, so events
 * of one aggregate are in one process at a time, in commit order.
 */
export function outboxSource<E extends Events>(parts: OutboxSourceParts): PulledSource<EventsOf<E>> {
  return {
    name: 'outbox',
    types: parts.types ?? [],
    events: parts.events ?? {},
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
