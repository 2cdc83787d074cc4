/* oxlint-disable typescript/consistent-return -- every kind is handled; the compiler checks that */
import { bodiesOf, type Operation, type Statement } from '../program.ts'

const WRITE: Statement = { do: 'write', fault: null, lock: null }

/** The same operation as a retry in quiet times would be: nothing fails, and it does no more than it must. */
export function calmed(operation: Operation): Operation {
  switch (operation.mode) {
    case 'atomic':
      return { ...operation, body: [WRITE], answer: 'plain' }
    case 'leased':
      return { ...operation, body: operation.body.flatMap(calmSteps), commit: [WRITE], answer: 'plain' }
    case 'batched':
      return { ...operation, fault: null, lock: null, asks: 'nothing' }
  }
}

/** Its steps, one after the other: those that were recorded must not be made again. */
function calmSteps(statement: Statement): Statement[] {
  if (statement.do === 'step') return [{ ...statement, fault: null, turns: 0 }]
  if (statement.do === 'step.tx') return [{ ...statement, body: [WRITE] }]
  return bodiesOf(statement).flatMap((body) => body.flatMap(calmSteps))
}
