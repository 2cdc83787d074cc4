import { REDRIVE_WINDOW, REDRIVE_WINDOW_MIN } from '../limits.ts'
import type { Clock } from '../platform/clock.ts'

/** So many letters per second, and never more than a second's worth at once. */
export class RedrivePace {
  readonly #clock: Clock
  #rate: number
  #tokens = 1
  #at: number

  constructor(clock: Clock, rate: number) {
    this.#clock = clock
    this.#rate = rate
    this.#at = clock.now()
  }

  set rate(rate: number) {
    this.#refill()
    this.#rate = rate
  }

  /** How many may start now. */
  allowed(): number {
    this.#refill()
    return Math.floor(this.#tokens)
  }

  started(letters: number): void {
    this.#tokens -= letters
  }

  /** When the next one may start. */
  nextInMs(): number {
    return Math.max(1, ((1 - this.#tokens) / this.#rate) * 1_000)
  }

  #refill(): void {
    const now = this.#clock.now()
    this.#tokens = Math.min(Math.max(1, this.#rate), this.#tokens + ((now - this.#at) / 1_000) * this.#rate)
    this.#at = now
  }
}

/** Of the last letters, how many failed. */
export class FailureWindow {
  readonly #last: boolean[] = []

  add(failed: boolean): void {
    this.#last.push(failed)
    if (this.#last.length > REDRIVE_WINDOW) this.#last.shift()
  }

  /** Null: too few to tell. */
  share(): { readonly failed: number; readonly of: number } | null {
    const of = this.#last.length
    return of < REDRIVE_WINDOW_MIN ? null : { failed: this.#last.filter(Boolean).length, of }
  }
}
