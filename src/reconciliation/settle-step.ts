import { onceError } from '../errors.ts'
import type { OperationAudit } from '../once/operations-types.ts'
import type { Once } from '../once/types.ts'

/** The call of a step, as the provider's list shows it. */
export interface StepCall extends OperationAudit {
  /** The id of the operation, which the step passed to the provider. */
  readonly id: string
  /** The name of the step. */
  readonly step: string
  /** What the step would have returned. */
  readonly result: unknown
  /** Whether a recorded result of the step belongs to this call. */
  // oxlint-disable-next-line no-explicit-any -- what the caller's own step returns
  readonly isSame: (recorded: any) => boolean
}

/**
 * - `settled`: the outcome was unknown, and is recorded now. The next attempt continues after the step.
 * - `recorded`: the call was recorded already.
 * - `foreign`: no operation owns the call. The operation does not exist, ended without the step, or recorded another call.
 * - `erased`: the operation has ended, and its steps were erased. Nobody can tell whether it made the call, so the call
 *   must not be compensated.
 */
export type Settled = 'settled' | 'recorded' | 'foreign' | 'erased'

/**
 * Settles the operation of an orphaned call, which the provider's list has and ours does not. Throws ONCE_IN_FLIGHT
 * while an attempt may still record the call: compare again later.
 */
export async function settleStep(
  // oxlint-disable-next-line no-explicit-any -- the transactions and events of the instance are not used
  once: Once<any, any>,
  { id, step, result, isSame, ...audit }: StepCall,
): Promise<Settled> {
  const { operations } = once
  // The operation is read before its steps: an attempt that has ended in between has recorded its step.
  const operation = await operations.show(id)
  let isDecided = operation === null || operation.state === 'completed'
  for await (const recorded of operations.steps({ name: step, since: new Date(0), operation: id })) {
    if (recorded.state !== 'done') continue
    if (isSame(recorded.result)) return 'recorded'
    // An earlier life of the key says nothing about the call of this one.
    isDecided ||= recorded.startedAt === operation?.startedAt.toISOString()
  }
  // Looked at again: an erasure may have removed the steps before they were read.
  if (isDecided) return (await operations.show(id))?.erased ? 'erased' : 'foreign'
  if (operation?.state === 'unknown' && (await operations.settle(id, { step, done: result }, audit))) return 'settled'
  throw onceError('ONCE_IN_FLIGHT', { detail: `The operation of this call is ${operation?.state}, with the id ${id}` })
}
