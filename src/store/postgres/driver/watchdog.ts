import { onceError } from '../../../errors.ts'

const LOOK_MS = 1_000

export interface Wait {
  readonly untilLook: number
  readonly end: () => void
}

/**
 * A connection can fail silently: a firewall drops it, or a host disappears. The watchdog ends a wait whose answer does
 * not come in time. It checks all waits once a second, because a timer per statement would cost more than the
 * statement's own bookkeeping. While a process is paused no checks run, so no wait ends because of the pause.
 */
export class Watchdog {
  readonly #waits = new Set<Wait>()
  #timer: ReturnType<typeof setInterval> | undefined
  #looks = 0

  /** Calls `end` after this time, or up to a second later, unless `done` was called before. */
  watch(ms: number, end: () => void): Wait {
    const wait = { untilLook: this.#looks + Math.ceil(ms / LOOK_MS) + 1, end }
    this.#waits.add(wait)
    if (this.#timer === undefined) {
      this.#timer = setInterval(() => this.#look(), LOOK_MS)
      this.#timer.unref()
    }
    return wait
  }

  done(wait: Wait): void {
    this.#waits.delete(wait)
  }

  /** The same for a client whose connections we cannot end: only the wait ends. */
  within<T>(ms: number, work: Promise<T>): Promise<T> {
    if (ms === Infinity) return work
    return new Promise((resolve, reject) => {
      const detail = `no answer from the database within ${ms} ms`
      const wait = this.watch(ms, () => reject(onceError('ONCE_STORE_UNAVAILABLE', { detail })))
      work.then(resolve, reject).finally(() => this.done(wait))
    })
  }

  #look(): void {
    this.#looks++
    if (this.#waits.size === 0) {
      clearInterval(this.#timer)
      this.#timer = undefined
    }
    for (const wait of this.#waits) {
      if (wait.untilLook > this.#looks) continue
      this.#waits.delete(wait)
      wait.end()
    }
  }
}
