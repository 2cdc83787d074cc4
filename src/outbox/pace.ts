import { RELAY_BATCH_EVENTS, RELAY_CALL_EVENTS, RELAY_CALL_MS } from '../limits.ts'

const GROWTH = 4

/** How many events a sink gets at once: as many as it can send in a short time, at its speed so far. */
export class Pace {
  readonly #most: number
  readonly #targetMs: number
  #size: number

  constructor(of: { readonly batch: number | undefined; readonly leaseMs: number }) {
    this.#most = Math.max(1, Math.min(of.batch ?? RELAY_BATCH_EVENTS, RELAY_BATCH_EVENTS))
    this.#targetMs = Math.min(RELAY_CALL_MS, of.leaseMs / 8)
    this.#size = Math.min(RELAY_CALL_EVENTS, this.#most)
  }

  get size(): number {
    return this.#size
  }

  took(events: number, ms: number): void {
    const fits = ms <= 0 ? Infinity : Math.floor((this.#targetMs * events) / ms)
    const grown = Math.max(this.#size, events * GROWTH)
    this.#size = Math.max(1, Math.min(fits, grown, this.#most))
  }

  /** The next events are sent one by one, because one of them may be at fault. */
  failed(): void {
    this.#size = 1
  }
}
