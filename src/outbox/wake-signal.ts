import type { Clock } from '../platform/clock.ts'

/** Wakes one waiter early. A signal without a waiter is kept for the next one. */
export class WakeSignal {
  readonly #clock: Clock
  #rung: 'no' | 'nudged' | 'rung' = 'no'
  #wake: (() => void) | undefined
  #isNudging = false
  /** When the last wait ended. Null: a wait is running. */
  wokenAt: number | null = -Infinity

  constructor(clock: Clock) {
    this.#clock = clock
  }

  signal(): void {
    this.#rung = 'rung'
    this.#wake?.()
  }

  /** Wakes the waiter without news. The waiter looks once, and need not expect more. */
  nudge(): void {
    if (this.#rung === 'no') this.#rung = 'nudged'
    this.#wake?.()
  }

  /** The same, once for all calls of this time. */
  nudgeWithin(ms: number): void {
    if (this.#isNudging) return
    this.#isNudging = true
    this.#clock.after(ms, () => {
      this.#isNudging = false
      this.nudge()
    })
  }

  /** Returns true if a signal came before the time was over. */
  async wait(ms: number): Promise<boolean> {
    if (this.#rung === 'no') {
      this.wokenAt = null
      await new Promise<void>((resolve) => {
        const cancel = this.#clock.after(ms, resolve, true)
        this.#wake = () => {
          cancel()
          resolve()
        }
      })
      this.#wake = undefined
      this.wokenAt = this.#clock.now()
    }
    const rung = this.#rung
    this.#rung = 'no'
    return rung === 'rung'
  }

  /** Waits although there is news. Only a signal after which `until` is true ends the pause early. */
  async pause(ms: number, until: () => boolean): Promise<void> {
    const end = this.#clock.now() + ms
    let isRung = false
    for (let leftMs = ms; leftMs > 0 && !until(); leftMs = end - this.#clock.now()) {
      if (await this.wait(leftMs)) isRung = true
    }
    // The next wait hears of the news.
    if (isRung) this.#rung = 'rung'
  }
}
