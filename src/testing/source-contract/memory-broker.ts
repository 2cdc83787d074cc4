import { EnvelopeDelivery } from '../../source/envelope.ts'
import type { Delivery, PulledSource, ReceivedEvent, Subscription } from '../../source/source.ts'

/** A message as a producer sends it: a CloudEvent in structured mode, or any text. */
export interface MemoryMessage {
  readonly id: string
  readonly type?: string
  readonly source?: string
  readonly aggregate?: string
  /** For `ordered` events: the id of the aggregate's previous event, or '' for its first event. */
  readonly previous?: string
  readonly data?: unknown
  readonly tenant?: string
  /** Sent as the body, in place of all other fields. */
  readonly body?: string
}

export interface MemoryBrokerOptions {
  /** How long a delivery may stay unsettled. Default: until its subscription closes. */
  readonly holdsForMs?: number
  /** false: a message that was given back is redelivered at once. Default: true. */
  readonly delays?: boolean
  readonly name?: string
}

interface Held {
  readonly message: MemoryMessage
  delivered: number
  /** The earliest time of the next delivery, or the time of the last one while a subscription holds the message. */
  at: number
  owner: object | null
}

/** A broker in this process, for tests. It has one queue, several subscriptions, redelivery, and faults on request. */
export interface MemoryBroker {
  readonly source: PulledSource<Record<string, ReceivedEvent<string, any>>> // oxlint-disable-line no-explicit-any -- the test knows its data
  publish(...messages: readonly MemoryMessage[]): void
  /** The number of messages that are neither acknowledged nor rejected. */
  readonly left: number
  readonly rejected: readonly string[]
  readonly acknowledged: number
  /** While the state is 'down', every call rejects. */
  state: 'up' | 'down'
}

class MemoryDelivery extends EnvelopeDelivery {
  readonly held: Held
  constructor(held: Held, source: string) {
    const { message } = held
    const { id, type = 'step.made', aggregate, previous, data = null, tenant } = message
    const attributes = { specversion: '1.0', id, type, source: message.source ?? 'memory', subject: aggregate }
    const body = message.body ?? JSON.stringify({ ...attributes, previous, tenant, data })
    super(
      { body, headers: {}, place: `${source} ${id}`, source },
      { delivered: held.delivered, redelivered: held.delivered > 1 },
    )
    this.held = held
  }
}

export function memoryBroker(options: MemoryBrokerOptions = {}): MemoryBroker {
  const { name = 'memory', holdsForMs, delays = true } = options
  const queue: Held[] = []
  const gone = new Set<Held>()
  const rejected: string[] = []
  let acknowledged = 0
  const wake: (() => void)[] = []
  const ring = (): void => {
    for (const resolve of wake.splice(0)) resolve()
  }
  let state: 'up' | 'down' = 'up'
  const up = (): void => {
    if (state === 'down') throw new Error('the broker is down')
  }
  const forget = (deliveries: readonly Delivery[]): number => {
    let count = 0
    for (const delivery of deliveries) {
      const { held } = delivery as MemoryDelivery
      if (gone.has(held)) continue
      gone.add(held)
      count++
      const index = queue.indexOf(held)
      if (index >= 0) queue.splice(index, 1)
    }
    return count
  }

  function subscribe(): Subscription {
    const owner = {}
    let closed = false
    return {
      async receive({ max, waitMs, signal }) {
        up()
        const until = Date.now() + waitMs
        for (;;) {
          const now = Date.now()
          const due = closed ? [] : queue.filter((held) => (held.owner === null ? held.at <= now : expired(held, now)))
          if (due.length > 0) {
            return due.slice(0, max).map((held) => {
              held.owner = owner
              held.delivered++
              held.at = now
              return new MemoryDelivery(held, name)
            })
          }
          if (signal.aborted || now >= until) return []
          const next = Math.min(until, now + 50, ...queue.flatMap(({ owner: o, at }) => (o === null ? [at] : [])))
          await new Promise<void>((resolve) => {
            const timer = setTimeout(resolve, Math.max(1, next - now))
            wake.push(() => {
              clearTimeout(timer)
              resolve()
            })
          })
          up()
        }
      },
      async ack(deliveries) {
        up()
        acknowledged += forget(deliveries)
      },
      async giveBack(deliveries, { delayMs }) {
        up()
        for (const delivery of deliveries) {
          const { held } = delivery as MemoryDelivery
          held.owner = null
          held.at = Date.now() + (delays ? delayMs : 0)
        }
        ring()
      },
      async reject(deliveries) {
        up()
        for (const delivery of deliveries) rejected.push(delivery.id)
        forget(deliveries)
      },
      async close() {
        closed = true
        for (const held of queue) if (held.owner === owner) Object.assign(held, { owner: null, at: 0 })
        ring()
      },
    }
  }

  function expired(held: Held, now: number): boolean {
    return holdsForMs !== undefined && now - held.at > holdsForMs
  }

  return {
    get state() {
      return state
    },
    set state(next) {
      state = next
      ring()
    },
    source: {
      name,
      kind: 'pulled' as const,
      redeliversFor: '1d' as const,
      holdsFor: holdsForMs === undefined ? ('connection' as const) : (`${holdsForMs}ms` as const),
      features: { orders: false, counts: true, marksRedelivered: true, delays, positions: false },
      open: async () => {
        up()
        return subscribe()
      },
    },
    publish(...messages: readonly MemoryMessage[]) {
      for (const message of messages) queue.push({ message, delivered: 0, at: 0, owner: null })
      ring()
    },
    get left() {
      return queue.length
    },
    rejected,
    get acknowledged() {
      return acknowledged
    },
  }
}
