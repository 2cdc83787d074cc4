import type { Delivery, EventsOf, OutgoingEvent, Sink, Source } from '../../src/index.ts'
import type { ShopEvents } from './shop.ts'

/** A minimal broker: a list in memory. It delivers every event twice, as brokers sometimes do. */
export class TwiceBroker {
  /** How often each event was delivered, by its id. */
  readonly delivered = new Map<string, number>()
  readonly #queue: OutgoingEvent[] = []

  readonly sink: Sink = {
    name: 'story',
    proves: 'accepted',
    dedupes: false,
    orders: true,
    send: async (events) => {
      this.#queue.push(...events)
      return events.map(() => ({ kind: 'sent' }))
    },
  }

  readonly source: Source<EventsOf<ShopEvents>> = {
    kind: 'pulled',
    name: 'story',
    redeliversFor: '1h',
    holdsFor: 'connection',
    features: { orders: true, counts: false, marksRedelivered: true, delays: false, positions: false },
    open: async () => ({
      receive: async () => this.#queue.splice(0, 1).map((event) => this.#deliver(event)),
      // Deliver it once more although it was acknowledged, as if the acknowledgement were lost.
      ack: async (deliveries) => this.#again(deliveries.filter(({ redelivered }) => !redelivered)),
      giveBack: async (deliveries) => this.#again(deliveries),
      close: async () => {},
    }),
  }

  #again(deliveries: readonly Delivery[]): void {
    for (const { event } of deliveries) this.#queue.push(event as OutgoingEvent)
  }

  #deliver(event: OutgoingEvent): Delivery {
    const times = (this.delivered.get(event.id) ?? 0) + 1
    this.delivered.set(event.id, times)
    const { id, source, type, subject, json, headers, traceparent } = event
    const delivery = { id, source, type, headers, traceparent, event, aggregate: subject, previous: null }
    return { ...delivery, body: json, delivered: undefined, redelivered: times > 1 }
  }
}
