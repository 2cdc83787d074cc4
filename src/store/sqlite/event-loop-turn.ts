import type { Clock } from '../../platform/clock.ts'

/**
 * Statements are synchronous, and promises do not turn the event loop. A long chain of them would delay every timer.
 */
const LOOP_HELD_MS_MAX = 10

/** Lets timers and sockets run between two statements, but only as often as needed. */
export class EventLoopTurn {
  readonly #clock: Clock
  #takenAt = -Infinity
  #waiting: (() => void)[] = []

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Calls back at once. If a turn of the event loop is due, all callers wait for that turn. */
  before(callback: () => void): void {
    if (this.#waiting.length > 0) this.#waiting.push(callback)
    else if (this.#clock.now() - this.#takenAt < LOOP_HELD_MS_MAX) callback()
    else {
      this.#waiting.push(callback)
      setImmediate(() => this.#take())
    }
  }

  #take(): void {
    this.#takenAt = this.#clock.now()
    for (const callback of this.#waiting.splice(0)) callback()
  }
}
