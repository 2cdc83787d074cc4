/**
 * A broker that behaves like a real one. It keeps each event until it is acknowledged, redelivers unacknowledged
 * events, and sometimes delivers twice. It outlives the services, and the audit reads its log.
 */
import type { ChargeCreated } from './catalogue.ts'
import type { Delivered, Message, QueueName } from './services/broker-client.ts'

const HOLD_MS = 5_000
const COPIES_MAX = 2
const COPY_DELAY_MS = 400

/** What happened to one event. */
export interface Logged {
  readonly message: Message
  readonly data: ChargeCreated
  readonly arrivedAt: number
  arrivals: number
  delivered: number
  acknowledged: number
}

interface Waiting {
  readonly handle: string
  readonly message: Message
  /** Not delivered before this time. For an event that a consumer holds: when it is redelivered. */
  at: number
  held: boolean
  deliveries: number
  /** How often the event is redelivered although it was acknowledged. */
  readonly copies: number
}

export class Broker {
  readonly #queues: Record<QueueName, Map<string, Waiting>> = { guarded: new Map(), unguarded: new Map() }
  readonly #log = new Map<string, Logged>()
  readonly #changed = new Set<Logged>()
  readonly #routes: (data: ChargeCreated) => QueueName
  #bells: (() => void)[] = []
  #handles = 0
  /** Whether events are delivered more than once. */
  duplicates = false

  /** `routes`: whether an operation was begun with the inbox or without. */
  constructor(routes: (data: ChargeCreated) => QueueName) {
    this.#routes = routes
  }

  publish(messages: readonly Message[]): void {
    for (const message of messages) {
      const data = message.data as ChargeCreated
      const logged = this.#log.get(message.id) ?? newLogged(message, data)
      logged.arrivals++
      this.#log.set(message.id, logged)
      this.#changed.add(logged)
      this.#enqueue(message, this.duplicates ? 1 + Math.floor(Math.random() * COPIES_MAX) : 0, 0)
    }
    this.#ring()
  }

  /** At least one delivery as soon as there is one; none when the time is over. */
  async receive(queue: QueueName, { max, waitMs }: { max: number; waitMs: number }): Promise<readonly Delivered[]> {
    const until = Date.now() + waitMs
    for (;;) {
      const now = Date.now()
      const due = [...this.#queues[queue].values()].filter(({ at }) => at <= now).slice(0, max)
      if (due.length > 0 || now >= until) return due.map((waiting) => this.#deliver(waiting, now))
      const next = Math.min(until, ...[...this.#queues[queue].values()].map(({ at }) => at))
      await this.#change(next - now)
    }
  }

  ack(queue: QueueName, handles: readonly string[]): void {
    for (const handle of handles) {
      const waiting = this.#queues[queue].get(handle)
      if (!waiting) continue
      this.#queues[queue].delete(handle)
      this.#logged(waiting.message).acknowledged++
      if (waiting.copies > 0) this.#enqueue(waiting.message, waiting.copies - 1, COPY_DELAY_MS * Math.random())
    }
    this.#ring()
  }

  /** Holds an event for a consumer that needs longer, or takes it back for redelivery. */
  postpone(queue: QueueName, handles: readonly string[], { delayMs = HOLD_MS, held = true } = {}): void {
    for (const handle of handles) {
      const waiting = this.#queues[queue].get(handle)
      if (waiting) Object.assign(waiting, { at: Date.now() + delayMs, held })
    }
    this.#ring()
  }

  /** The consumer's process is gone: redelivers its events at once. */
  release(): void {
    for (const queue of Object.values(this.#queues)) {
      for (const waiting of queue.values()) if (waiting.held) Object.assign(waiting, { at: 0, held: false })
    }
    this.#ring()
  }

  /** What happened to events since the last call. */
  changes(): readonly Logged[] {
    const changed = [...this.#changed]
    this.#changed.clear()
    return changed
  }

  /** Events of rounds that are no longer shown. */
  forget(olderThanRound: number): void {
    for (const [id, { data }] of this.#log) if (data.round < olderThanRound) this.#log.delete(id)
  }

  /** Ends all waiting calls. */
  close(): void {
    this.#ring()
  }

  #enqueue(message: Message, copies: number, delayMs: number): void {
    const handle = String(++this.#handles)
    const waiting = { handle, message, copies, at: Date.now() + delayMs, held: false, deliveries: 0 }
    this.#queues[this.#routes(message.data as ChargeCreated)].set(handle, waiting)
  }

  #deliver(waiting: Waiting, now: number): Delivered {
    const { handle, message } = waiting
    const redelivered = waiting.deliveries++ > 0
    Object.assign(waiting, { at: now + HOLD_MS, held: true })
    this.#logged(message).delivered++
    return { handle, message, redelivered }
  }

  #logged(message: Message): Logged {
    const logged = this.#log.get(message.id) ?? newLogged(message, message.data as ChargeCreated)
    this.#changed.add(logged)
    return logged
  }

  #change(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, Math.max(1, ms))
      this.#bells.push(() => {
        clearTimeout(timer)
        resolve()
      })
    })
  }

  #ring(): void {
    for (const ring of this.#bells.splice(0)) ring()
  }
}

function newLogged(message: Message, data: ChargeCreated): Logged {
  return { message, data, arrivedAt: Date.now(), arrivals: 0, delivered: 0, acknowledged: 0 }
}
