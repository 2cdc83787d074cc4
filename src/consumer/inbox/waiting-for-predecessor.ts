import { CONSUMER_EARLY_LOOK_MS, CONSUMER_EARLY_LOOK_MS_MAX, CONSUMER_EARLY_MAX } from '../../limits.ts'
import type { Clock } from '../../platform/clock.ts'
import type { InboxItem, InboxState } from '../../store/inbox.ts'
import type { Arrival } from './arrival.ts'

const LOOK_ITEMS = 500

export interface WaitingForPredecessorParts {
  readonly clock: Clock
  /** How long a message may wait. */
  readonly holdMs: number
  look(items: readonly InboxItem[]): Promise<readonly InboxState[]>
  /** Called with messages whose predecessors are applied or parked, so that they may run. */
  ready(arrivals: readonly Arrival[]): void
  /** Called with messages that waited too long, or that are too many. */
  giveUp(arrivals: readonly Arrival[]): void
  troubled(error: unknown): void
}

/** `ordered` messages whose predecessors are not applied yet. One statement checks many of them. */
export class WaitingForPredecessor {
  readonly #parts: WaitingForPredecessorParts
  readonly #waiting = new Set<Arrival>()
  #bytes = 0
  #everyMs = CONSUMER_EARLY_LOOK_MS
  #cancel: (() => void) | undefined
  #looking = false

  constructor(parts: WaitingForPredecessorParts) {
    this.#parts = parts
  }

  get size(): number {
    return this.#waiting.size
  }

  /** The bytes that the messages keep in memory. */
  get bytes(): number {
    return this.#bytes
  }

  add(arrival: Arrival): void {
    arrival.earlySince ??= this.#parts.clock.now()
    arrival.notBefore = Infinity
    if (!this.#waiting.has(arrival)) this.#bytes += arrival.bytes
    this.#waiting.add(arrival)
    if (this.#waiting.size > CONSUMER_EARLY_MAX) this.#letGo([...this.#waiting].slice(0, CONSUMER_EARLY_MAX / 4))
    this.#arm()
  }

  /** The message runs, or is no longer held. */
  delete(arrival: Arrival): void {
    if (this.#waiting.delete(arrival)) this.#bytes -= arrival.bytes
  }

  /** A new message came, so the next check comes soon. */
  hurry(): void {
    this.#everyMs = CONSUMER_EARLY_LOOK_MS
  }

  stop(): void {
    this.#cancel?.()
    this.#cancel = undefined
    this.#waiting.clear()
    this.#bytes = 0
  }

  #arm(): void {
    if (this.#cancel || this.#looking || this.#waiting.size === 0) return
    this.#cancel = this.#parts.clock.after(this.#everyMs, () => {
      this.#cancel = undefined
      this.#looking = true
      void this.#look()
        .catch((error: unknown) => this.#parts.troubled(error))
        .finally(() => {
          this.#looking = false
          this.#arm()
        })
    })
  }

  async #look(): Promise<void> {
    const now = this.#parts.clock.now()
    const ids = new Set([...this.#waiting].map(({ item }) => item.id))
    // A message behind another waiting message need not be checked yet.
    const heads = [...this.#waiting].filter(({ item }) => item.previous === null || !ids.has(item.previous))
    let freed = 0
    for (let at = 0; at < heads.length; at += LOOK_ITEMS) {
      const part = heads.slice(at, at + LOOK_ITEMS)
      const states = await this.#parts.look(part.map(({ item }) => item))
      const ready = part.filter((arrival, i) => this.#waiting.has(arrival) && states[i] !== 'early')
      for (const arrival of ready) this.delete(arrival)
      freed += ready.length
      if (ready.length > 0) this.#parts.ready(ready)
    }
    this.#everyMs = freed > 0 ? CONSUMER_EARLY_LOOK_MS : Math.min(this.#everyMs * 2, CONSUMER_EARLY_LOOK_MS_MAX)
    this.#letGo([...this.#waiting].filter(({ earlySince }) => now - (earlySince ?? now) > this.#parts.holdMs))
  }

  #letGo(arrivals: readonly Arrival[]): void {
    if (arrivals.length === 0) return
    for (const arrival of arrivals) this.delete(arrival)
    this.#parts.giveUp(arrivals)
  }
}
