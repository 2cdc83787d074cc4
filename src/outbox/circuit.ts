import { RELAY_DOWN_MS_MAX } from '../limits.ts'
import type { Clock } from '../platform/clock.ts'
import type { Random } from '../platform/random.ts'
import { backoffMs } from './backoff.ts'
import { readable, textOf } from '../platform/readable-error.ts'

/** Whether the sink works. After each pause one event is tried; a round of failures counts once. */
export class Circuit {
  readonly #clock: Clock
  readonly #random: Random
  readonly #retry: () => void
  #cancel: () => void = () => {}
  #until = 0
  #since = 0
  /** Rounds in a row in which nothing was sent; 0: it works. */
  down = 0
  /** Calls of an earlier round say nothing new. */
  round = 0

  constructor(clock: Clock, random: Random, retry: () => void) {
    this.#clock = clock
    this.#random = random
    this.#retry = retry
  }

  get isPausing(): boolean {
    return this.down > 0 && this.#clock.now() < this.#until
  }

  /** How long nothing was sent; 0: it works. */
  get downMs(): number {
    return this.down === 0 ? 0 : this.#clock.now() - this.#since
  }

  open(): void {
    const now = this.#clock.now()
    if (this.down === 0) this.#since = now
    this.down++
    this.round++
    const ms = Math.min(RELAY_DOWN_MS_MAX, backoffMs(this.#random, this.down))
    this.#until = now + ms
    this.#cancel()
    this.#cancel = this.#clock.after(ms, this.#retry, true)
  }

  close(): void {
    this.down = 0
    this.#cancel()
  }
}

/** Thrown when the sink itself is out of order. */
export class SinkDown extends Error {
  override readonly name: string = 'SinkDown'
  constructor(cause: unknown) {
    const error = readable(cause)
    super(`the sink cannot send: ${textOf(error instanceof Error ? error.message : error)}`, { cause: error })
  }
}
