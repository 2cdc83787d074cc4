import { onceError } from '../../errors.ts'
import { WRITER_QUEUE_MAX, WRITER_WAIT_MS_MAX } from '../../limits.ts'
import { systemClock, type Clock } from '../../platform/clock.ts'

/**
 * One connection that callers use one at a time, in the order in which they came. A caller that waits too long, or
 * behind too many, is refused.
 */
export class SharedConnection {
  readonly #clock: Clock
  readonly #waiting = new Set<() => void>()
  #held = false

  constructor(clock: Clock = systemClock) {
    this.#clock = clock
  }

  /** Returns a function that releases the connection. A second call does nothing. */
  acquire(): Promise<() => void> {
    if (!this.#held) {
      this.#held = true
      return Promise.resolve(this.#releaser())
    }
    if (this.#waiting.size >= WRITER_QUEUE_MAX) return Promise.reject(onceError('ONCE_QUEUE_FULL'))
    return new Promise((resolve, reject) => {
      const cancel = this.#clock.after(
        WRITER_WAIT_MS_MAX,
        () => {
          this.#waiting.delete(granted)
          const detail = `The only connection was busy for ${WRITER_WAIT_MS_MAX} ms. Await nothing but tx, or use a lease`
          reject(onceError('ONCE_QUEUE_FULL', { detail }))
        },
        true,
      )
      const granted = (): void => {
        cancel()
        this.#waiting.delete(granted)
        resolve(this.#releaser())
      }
      this.#waiting.add(granted)
    })
  }

  async hold<T>(work: () => Promise<T>): Promise<T> {
    const release = await this.acquire()
    try {
      return await work()
    } finally {
      release()
    }
  }

  #releaser(): () => void {
    let mine = true
    return () => {
      if (!mine) return
      mine = false
      const [next] = this.#waiting
      if (next) next()
      else this.#held = false
    }
  }
}
