import type { Clock } from '../../platform/clock.ts'

/** Statements are synchronous and promises do not turn the event loop: a chain of them would keep every timer waiting. */
const LOOP_HELD_MS_MAX = 10

/** Lets timers and sockets in between two statements, often enough and no more often. */
export class EventLoopTurn {
  readonly #clock: Clock
  #takenAt = -Infinity
  #waiting: (() => void)[] = []

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Calls back at once, or after a turn of the event loop when it is time for one. Then everybody waits for it. */
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
