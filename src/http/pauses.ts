import { inFlightError } from '../operation/outcome.ts'
import { sleep, type Clock } from '../platform/clock.ts'
import { STREAM_POLL_MS_MAX, STREAM_POLL_MS_MIN } from '../stream/limits.ts'

interface PausesOptions {
  readonly clock: Clock
  /** The client left. */
  readonly signal: AbortSignal
  readonly since: number
  readonly withinMs: number
  retryAfterMs(): number
}

/** The pauses between looks at an operation that another attempt runs. Each is twice as long as the one before. */
export class Pauses {
  readonly #options: PausesOptions
  #ms = STREAM_POLL_MS_MIN

  constructor(options: PausesOptions) {
    this.#options = options
  }

  /** Throws when the operation should have ended. */
  async next(): Promise<void> {
    const { clock, signal, since, withinMs, retryAfterMs } = this.#options
    if (clock.now() - since > withinMs) throw inFlightError(retryAfterMs())
    await sleep(clock, this.#ms, signal)
    this.#ms = Math.min(this.#ms * 2, STREAM_POLL_MS_MAX)
  }
}
