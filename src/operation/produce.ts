import { onceError } from '../errors.ts'
import type { Events } from '../outbox/event.ts'
import type { Produce } from './atomic.ts'
import { answerOfFinal, answerOfValue, valueOf } from './codec.ts'
import { isFinal } from './final.ts'
import type { LeasedProduce } from './leased.ts'
import type { Produced } from './outcome.ts'
import type { Committed, Operation } from './types.ts'

/** A return completes, `throw final(…)` refuses, any other throw releases. The handler is typed where users write it. */
export function produceOf<Tx>(handler: (op: never) => unknown, input: unknown): Produce<Tx> {
  return async (op): Promise<Produced> => {
    try {
      return { answer: answerOfValue(await handler(Object.assign(op, { input }) as never)), fate: 'complete' }
    } catch (error) {
      if (isFinal(error)) return { answer: answerOfFinal(error), fate: 'refuse' }
      throw error
    }
  }
}

export function leasedProduceOf<Tx>(handler: (op: never) => Promise<unknown>, input: unknown): LeasedProduce<Tx> {
  return async ({ op, commit }) => {
    let committed: Awaited<ReturnType<typeof commit>> | undefined
    // Not Object.assign: it would read the lazy signal, and so create it.
    const leased = Object.create(op, {
      input: { value: input, enumerable: true },
      commit: {
        value: async <R>(make: (op: Operation<Tx, Events>) => R | Promise<R>): Promise<Committed<R>> => {
          if (committed) throw onceError('ONCE_STEP_INVALID', { detail: 'commit was called twice' })
          committed = await commit(completing(make))
          return valueOf(committed.answer) as Committed<R>
        },
        enumerable: true,
      },
    }) as never
    try {
      await handler(leased)
    } catch (error) {
      if (!committed && isFinal(error))
        return { kind: 'refused', produced: { answer: answerOfFinal(error), fate: 'refuse' } }
      if (!committed) throw error
    }
    if (!committed) throw onceError('ONCE_NOT_COMMITTED')
    return { kind: 'committed', outcome: committed }
  }
}

/** Inside `commit` a refusal must roll back first, so it is rethrown, and the caller that catches it stores it. */
function completing<Tx, E extends Events, R>(make: (op: Operation<Tx, E>) => R | Promise<R>): Produce<Tx> {
  return async (op) => ({ answer: answerOfValue(await make(op)), fate: 'complete' })
}
