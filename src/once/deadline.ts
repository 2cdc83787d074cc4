import { onceError } from '../errors.ts'
import type { Clock } from '../platform/clock.ts'

/** An abort signal that is only built when somebody asks for it: most handlers never do. */
export class LazySignal {
  #controller: AbortController | undefined
  #reason: unknown

  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController()
      if (this.#reason !== undefined) this.#controller.abort(this.#reason)
    }
    return this.#controller.signal
  }

  get aborted(): boolean {
    return this.#reason !== undefined
  }

  abort(reason: unknown): void {
    if (this.#reason !== undefined) return
    this.#reason = reason
    this.#controller?.abort(reason)
  }
}

/**
 * Runs the work, but not past its deadline: then the signal aborts and the caller is told. The work itself cannot be
 * stopped from here; its revoked `tx` and the server's own deadline see to it that it commits nothing.
 */
export function withDeadline<T>(clock: Clock, ms: number, signal: LazySignal, work: () => Promise<T>): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const cancel = clock.after(
      ms,
      () => {
        const error = onceError('ONCE_DEADLINE', {
          detail: `The operation passed its deadline of ${ms} ms; nothing was committed`,
        })
        signal.abort(error)
        reject(error)
      },
      true,
    )
    const settle = (end: () => void): void => {
      cancel()
      end()
    }
    try {
      work().then(
        (value) => settle(() => resolve(value)),
        (error: unknown) => settle(() => reject(error)),
      )
    } catch (error) {
      settle(() => reject(error))
    }
  })
}
