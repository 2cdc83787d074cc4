import { CONSUMER_STORE_REST_MS, CONSUMER_STORE_REST_MS_MAX } from '../limits.ts'
import type { Clock } from '../platform/clock.ts'
import type { Random } from '../platform/random.ts'

/** A consumer whose store is in trouble rests, ever longer. After each rest one batch finds out whether it is over. */
export class StoreRest {
  readonly #clock: Clock
  readonly #random: Random
  #troubles = 0
  #until = 0
  #isTrying = false

  constructor({ clock, random }: { readonly clock: Clock; readonly random: Random }) {
    this.#clock = clock
    this.#random = random
  }

  /** When the next batch may begin. */
  get until(): number {
    return this.#until
  }

  /** False: everything waits, or for the one that finds out. Whatever hangs from before the trouble is not waited for. */
  get mayBegin(): boolean {
    return this.#troubles === 0 || (!this.#isTrying && this.#clock.now() >= this.#until)
  }

  began(): void {
    this.#isTrying = this.#troubles > 0
  }

  /** Answers for how long to rest. Whoever ran beside it met the same trouble. */
  met(): number {
    const now = this.#clock.now()
    this.#isTrying = false
    if (now >= this.#until) {
      const bound = Math.min(CONSUMER_STORE_REST_MS_MAX, CONSUMER_STORE_REST_MS * 2 ** Math.min(this.#troubles++, 20))
      this.#until = now + bound * (0.5 + this.#random.next() / 2)
    }
    return this.#until - now
  }

  over(): void {
    this.#isTrying = false
    this.#troubles = 0
    this.#until = 0
  }
}
