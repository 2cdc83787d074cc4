import type { Clock } from '../platform/clock.ts'

/** Wakes one sleeper early. A ring while nobody sleeps is kept for the next one. */
export class Bell {
  readonly #clock: Clock
  #rung = false
  #wake: (() => void) | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  ring(): void {
    this.#rung = true
    this.#wake?.()
  }

  /** True when it was rung before the time was over. */
  async wait(ms: number): Promise<boolean> {
    if (!this.#rung) {
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
    this.#rung = false
    return rung
  }
}
