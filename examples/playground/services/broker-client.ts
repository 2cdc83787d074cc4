/** The broker over HTTP, as a sink and as a source: everything that a custom broker needs. */
import type { Delivery, EventsOf, OutgoingEvent, ReceivedEvent, Sink, Source, Subscription } from 'effectively-once'
import type { PlaygroundEvents } from '../catalogue.ts'
import { pass } from './crash.ts'

/** An event on its way through the broker. */
export interface Message {
  readonly id: string
  readonly source: string
  readonly type: string
  readonly subject: string
  readonly time: string
  readonly data: unknown
}

/** A message that a consumer holds. The consumer acknowledges it by its `handle`. */
export interface Delivered {
  readonly handle: string
  readonly message: Message
  readonly redelivered: boolean
}

export type QueueName = 'guarded' | 'unguarded'

export function brokerSink(url: string): Sink {
  return {
    name: 'playground-broker',
    proves: 'accepted',
    dedupes: false,
    orders: true,
    batch: 64,
    async send(events, { signal }) {
      await post(`${url}/publish`, events.map(messageOf), signal)
      pass('after-send')
      return events.map(() => ({ kind: 'sent' }))
    },
  }
}

/** Sends directly to the broker, outside any transaction. */
export async function publishBeside(url: string, message: Message): Promise<void> {
  await post(`${url}/publish`, [message])
}

function messageOf({ id, source, type, subject, time, data }: OutgoingEvent): Message {
  return { id, source, type, subject, time, data }
}

export function brokerSource(url: string, queue: QueueName): Source<EventsOf<PlaygroundEvents>> {
  return {
    kind: 'pulled',
    name: `playground-${queue}`,
    redeliversFor: '1h',
    holdsFor: '5s',
    features: { orders: false, counts: false, marksRedelivered: true, delays: true, positions: false },
    open: async () => subscribe(`${url}/${queue}`),
  }
}

function subscribe(url: string): Subscription {
  const handles = new WeakMap<Delivery, string>()
  const handlesOf = (deliveries: readonly Delivery[]): unknown => deliveries.map((delivery) => handles.get(delivery))
  return {
    async receive({ max, waitMs, signal }) {
      const delivered = (await post(`${url}/receive`, { max, waitMs }, signal)) as readonly Delivered[]
      return delivered.map((one) => {
        const delivery = deliveryOf(one)
        handles.set(delivery, one.handle)
        return delivery
      })
    },
    async ack(deliveries) {
      // The receipts are committed, but the broker does not know it yet.
      pass('before-ack')
      await post(`${url}/ack`, handlesOf(deliveries))
    },
    async giveBack(deliveries, { delayMs }) {
      await post(`${url}/give-back`, { handles: handlesOf(deliveries), delayMs })
    },
    async extend(deliveries) {
      await post(`${url}/extend`, handlesOf(deliveries))
    },
    close: async () => {},
  }
}

function deliveryOf({ message, redelivered }: Delivered): Delivery {
  const { id, source, type, subject } = message
  const event: ReceivedEvent = { ...message, traceparent: undefined, headers: {} }
  return {
    id,
    source,
    type,
    event,
    aggregate: subject,
    previous: null,
    body: JSON.stringify(message),
    headers: {},
    delivered: undefined,
    redelivered,
    traceparent: undefined,
  }
}

async function post(url: string, body: unknown, signal?: AbortSignal): Promise<unknown> {
  const answer = await fetch(url, { method: 'POST', body: JSON.stringify(body), ...(signal ? { signal } : {}) })
  if (!answer.ok) throw new Error(`the broker answered ${answer.status}`)
  return answer.json()
}
