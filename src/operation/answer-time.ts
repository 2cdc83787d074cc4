import { onceError } from '../errors.ts'
import type { Clock } from '../platform/clock.ts'

/**
 * The time that a batch has left for all its answers together. One timer serves all promises, and there is none without
 * promises.
 */
export class AnswerTime {
  readonly #clock: Clock
  readonly #until: number
  #late: Promise<never> | undefined
  #cancel: () => void = () => {}
  #over = false

  constructor(clock: Clock, until: number) {
    this.#clock = clock
    this.#until = until
  }

  /** True when the time is over. */
  get over(): boolean {
    return this.#over
  }

  wait<T>(made: Promise<T>): Promise<T> {
    this.#late ??= this.#arm()
    return Promise.race([made, this.#late])
  }

  end(): void {
    this.#cancel()
  }

  #arm(): Promise<never> {
    const late = new Promise<never>((_, reject) => {
      const ring = (): void => {
        this.#over = true
        const detail = 'The batch passed its deadline while it waited for this answer; nothing was committed'
        reject(onceError('ONCE_DEADLINE', { detail }))
      }
      this.#cancel = this.#clock.after(Math.max(1, this.#until - this.#clock.now()), ring, true)
    })
    late.catch(() => {})
    return late
  }
}
