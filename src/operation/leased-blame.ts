import type { Events } from '../outbox/event.ts'
import type { LeasedOperation, Step, StepOptions } from './types.ts'

type Work = (...given: never[]) => unknown

/**
 * A leased handler throws errors of its own code and errors that `step` and `commit` raised, with the same codes. This
 * class remembers which errors `step` and `commit` raised.
 */
export class LeasedBlame {
  readonly #fromHandler = new WeakSet<object>()
  readonly #raised = new WeakSet<object>()

  /** Whether `step` or `commit` raised this error, or it is the reason of the operation's signal. */
  isRaised(error: unknown, op: { readonly signal: AbortSignal }): boolean {
    return isObject(error) && (this.#raised.has(error) || (op.signal.aborted && op.signal.reason === error))
  }

  /** For a function that the handler gave to `step` or `commit`. */
  handlers<F extends Work>(work: F): F {
    const watched = async (...given: never[]): Promise<unknown> => {
      try {
        return await work(...given)
      } catch (error) {
        if (isObject(error)) this.#fromHandler.add(error)
        throw error
      }
    }
    return watched as unknown as F
  }

  /** For the promise of a `step` or a `commit`. Returns the same promise, because a handler need not await a step. */
  ours<T>(result: Promise<T>): Promise<T> {
    result.catch((error: unknown) => {
      if (isObject(error) && !this.#fromHandler.has(error)) this.#raised.add(error)
    })
    return result
  }

  steps<Tx>({ step }: Pick<LeasedOperation<Tx, Events>, 'step'>): Step<Tx> {
    const call = (name: string, work: Work, options: StepOptions<unknown> = {}): Promise<unknown> => {
      const reconcile = options.reconcile && this.handlers(options.reconcile.bind(options))
      const watched = Object.create(options, { reconcile: { value: reconcile } }) as StepOptions<unknown>
      return this.ours(step(name, this.handlers(work) as never, watched))
    }
    const tx = (name: string, work: Work, options?: object): Promise<unknown> =>
      this.ours(step.tx(name, this.handlers(work) as never, options))
    return Object.assign(call, { tx }) as unknown as Step<Tx>
  }
}

function isObject(error: unknown): error is object {
  return typeof error === 'object' && error !== null
}
