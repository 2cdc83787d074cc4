import type { Clock } from '../platform/clock.ts'

/** Wakes one sleeper early. A ring while nobody sleeps is kept for the next one. */
export class WakeSignal {
  readonly #clock: Clock
  #rung: 'no' | 'nudged' | 'rung' = 'no'
  #wake: (() => void) | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  signal(): void {
    this.#rung = 'rung'
    this.#wake?.()
  }

  /** Wakes without news: whoever sleeps looks around, and has no reason to expect more. */
  nudge(): void {
    if (this.#rung === 'no') this.#rung = 'nudged'
    this.#wake?.()
  }

  /** True when it was rung before the time was over. */
  async wait(ms: number): Promise<boolean> {
    if (this.#rung === 'no') {
      await new Promise<void>((resolve) => {
        const cancel = this.#clock.after(ms, resolve, true)
        this.#wake = () => {
          cancel()
          resolve()
        }
      })
      this.#wake = undefined
    }
    const rung = this.#rung
    this.#rung = 'no'
    return rung === 'rung'
  }
}
