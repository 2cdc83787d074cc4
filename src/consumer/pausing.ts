import type { Observe } from '../observe/signal.ts'

/** Whether a consumer is paused. Signals report each change. */
export class Pausing {
  readonly #name: string
  readonly #observe: Observe
  #period = new AbortController()

  constructor(name: string, observe: Observe) {
    this.#name = name
    this.#observe = observe
  }

  get paused(): boolean {
    return this.#period.signal.aborted
  }

  /** Aborts with the next pause. */
  get signal(): AbortSignal {
    return this.#period.signal
  }

  pause(): void {
    if (this.paused) return
    this.#period.abort()
    this.#observe({ kind: 'paused', task: 'consumer', name: this.#name })
  }

  resume(): void {
    if (!this.paused) return
    this.#period = new AbortController()
    this.#observe({ kind: 'resumed', task: 'consumer', name: this.#name })
  }
}
