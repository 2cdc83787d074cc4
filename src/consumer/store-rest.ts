import { CONSUMER_STORE_REST_MS, CONSUMER_STORE_REST_MS_MAX } from '../limits.ts'
import type { Observe } from '../observe/signal.ts'
import { AlikeFailures } from './alike-failures.ts'
import type { Fates } from './fate.ts'
import type { Clock } from '../platform/clock.ts'
import type { Random } from '../platform/random.ts'

interface StoreRestParts {
  readonly clock: Clock
  readonly random: Random
  readonly settings: { readonly observe: Observe }
}

/** Untried messages wait at most this long because other messages fail alike. */
const ALIKE_REST_MS_MAX = 1_000

/**
 * If the store is in trouble, or all messages fail alike, the consumer pauses, longer each time. After each pause one
 * batch checks whether the trouble is over.
 */
export class StoreRest {
  readonly #clock: Clock
  readonly #random: Random
  readonly #observe: Observe
  readonly #alike = new AlikeFailures()
  #troubles = 0
  #until = 0
  #isTrying = false

  constructor({ clock, random, settings }: StoreRestParts) {
    this.#observe = settings.observe
    this.#clock = clock
    this.#random = random
  }

  /** When the next batch may begin. */
  get until(): number {
    return this.#until
  }

  /**
   * False during a pause, and while one batch checks whether the trouble is over. Older batches that hang do not count.
   */
  mayBegin(now: number): boolean {
    return this.#troubles === 0 || (!this.#isTrying && now >= this.#until)
  }

  began(): void {
    this.#isTrying = this.#troubles > 0
  }

  /**
   * A batch met trouble. Returns how long to pause. Concurrent batches met the same trouble, so the pause does not grow
   * again.
   */
  met(maxMs: number = CONSUMER_STORE_REST_MS_MAX): number {
    const now = this.#clock.now()
    this.#isTrying = false
    if (now >= this.#until) {
      const bound = Math.min(maxMs, CONSUMER_STORE_REST_MS * 2 ** Math.min(this.#troubles++, 20))
      this.#until = now + bound * (0.5 + this.#random.next() / 2)
    }
    return this.#until - now
  }

  /** A batch met no trouble of the store. Returns how long to pause because all messages fail alike. */
  ended(fates: Fates): number {
    const alike = this.#alike.after(fates)
    if (alike === null) {
      this.over()
      return 0
    }
    if (alike !== 'still') this.#observe({ kind: 'troubled', task: 'consumer', error: alike })
    // The other messages of the batch were not tried yet, so they run again at once.
    if (![...fates.values()].some(({ kind }) => kind === 'again')) return this.met(ALIKE_REST_MS_MAX)
    this.#isTrying = false
    return 0
  }

  over(): void {
    this.#isTrying = false
    this.#troubles = 0
    this.#until = 0
  }
}
