import { RATE_MAX } from '../limits.ts'
import { invalid } from '../options.ts'
import type { Clock } from './clock.ts'

const LOOK_MS_MAX = 60_000

/** Limits starts per second. A burst is never larger than one second's starts. */
export class RateLimit {
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

  started(count: number): void {
    this.#tokens -= count
  }

  /** When the next start is allowed, or when to ask again: no timer is longer than 24 days. */
  nextInMs(): number {
    return Math.min(LOOK_MS_MAX, Math.max(1, ((1 - this.#tokens) / this.#rate) * 1_000))
  }

  #refill(): void {
    const now = this.#clock.now()
    this.#tokens = Math.min(Math.max(1, this.#rate), this.#tokens + ((now - this.#at) / 1_000) * this.#rate)
    this.#at = now
  }
}

/** An optional rate limit, which calls back when it has room again. */
export class Throttle {
  readonly #clock: Clock
  readonly #limit: RateLimit | null
  readonly #again: () => void
  /** Whether there was no room, and `again` was not called yet. */
  waiting = false

  constructor(clock: Clock, rate: number | null, again: () => void) {
    this.#clock = clock
    this.#limit = rate === null ? null : new RateLimit(clock, rate)
    this.#again = again
  }

  /** How many may start now. If none may, `again` is called as soon as one may. */
  room(): number {
    const room = this.#limit?.allowed() ?? Infinity
    if (room < 1) this.#callAgain()
    return room
  }

  started(count: number): void {
    this.#limit?.started(count)
  }

  #callAgain(): void {
    if (this.waiting || !this.#limit) return
    this.waiting = true
    this.#clock.after(this.#limit.nextInMs(), () => {
      this.waiting = false
      this.#again()
    })
  }
}

/** Checks the option `rate`. `what` names the counted things, for the error. */
export function checkRate(rate: unknown, what: string): number {
  if (typeof rate === 'number' && rate > 0 && rate <= RATE_MAX) return rate
  throw invalid(`rate must be ${what} per second, up to ${RATE_MAX}`)
}
