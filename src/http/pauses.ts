import { inFlightError } from '../operation/outcome.ts'
import { sleep, type Clock } from '../platform/clock.ts'
import { STREAM_POLL_MS_MAX, STREAM_POLL_MS_MIN } from '../stream/limits.ts'

interface PausesOptions {
  readonly clock: Clock
  /** Aborts when the client has left. */
  readonly left: AbortSignal
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

  /** Throws when the operation should have ended, or when the client has left. */
  async next(): Promise<void> {
    const { clock, left, since, withinMs, retryAfterMs } = this.#options
    const isLate = clock.now() - since > withinMs
    if (!isLate) await sleep(clock, this.#ms, left)
    if (isLate || left.aborted) throw inFlightError(retryAfterMs())
    this.#ms = Math.min(this.#ms * 2, STREAM_POLL_MS_MAX)
  }
}
