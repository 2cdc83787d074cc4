import type { Clock } from '../platform/clock.ts'
import type { Random } from '../platform/random.ts'
import { pauseWhileDownMs } from './backoff.ts'
import { messagesOf, readable } from '../platform/readable-error.ts'

/** Whether the sink works. After each pause the relay tries one event. A round of failures counts once. */
export class Circuit {
  readonly #clock: Clock
  readonly #random: Random
  readonly #retry: () => void
  #cancel: () => void = () => {}
  #since = 0
  /** The round in which the sink was found to be reachable. A failure after it begins a new time. */
  #restarted = -1
  /** True until the timer fires. A timer may fire slightly early, and the relay may try then. */
  isPausing = false
  /** Rounds in a row in which nothing was sent. 0: the sink works. */
  down = 0
  /** The current round. Calls of an earlier round say nothing new. */
  round = 0

  constructor(clock: Clock, random: Random, retry: () => void) {
    this.#clock = clock
    this.#random = random
    this.#retry = retry
  }

  /** How long nothing was sent. 0: the sink works, or nothing has failed since it was reached. */
  get downForMs(): number {
    return this.down === 0 || this.round === this.#restarted ? 0 : this.#clock.now() - this.#since
  }

  open(): void {
    if (this.downForMs === 0) this.#since = this.#clock.now()
    this.down++
    this.round++
    this.isPausing = true
    this.#cancel()
    const end = (): void => {
      this.isPausing = false
      this.#retry()
    }
    this.#cancel = this.#clock.after(pauseWhileDownMs(this.#random, this.down), end)
  }

  /** The sink can be reached, so the time without a sent event begins with the next failure. */
  restart(): void {
    this.#restarted = this.round
  }

  close(): void {
    this.down = 0
    this.isPausing = false
    this.#cancel()
  }
}

/** Thrown when the sink itself is down. */
export class SinkDown extends Error {
  override readonly name: string = 'SinkDown'
  constructor(cause: unknown) {
    super(`the sink cannot send: ${messagesOf(cause)}`, { cause: readable(cause) })
  }
}
