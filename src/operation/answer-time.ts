import { onceError } from '../errors.ts'
import type { Clock } from '../platform/clock.ts'

/** What a batch has left for its answers, all together: one timer for as many promises as there are, and none without. */
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

  /** Nobody is waited for any more. */
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
