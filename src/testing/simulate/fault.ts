import { onceError } from '../../errors.ts'
import type { OnceCode } from '../../errors.ts'

/**
 * What can happen to one call of the store. `fail-before`: it never arrives. `lost-reply`: it takes effect, but the
 * caller gets an error. `reset`: the connection breaks, and its transaction is rolled back. `deadline`: the server ends
 * the transaction. `crash`: the process dies before the call, and `act` runs again under the same keys.
 */
export type Fault = 'fail-before' | 'lost-reply' | 'reset' | 'deadline' | 'crash'

export const FAULTS: readonly Fault[] = ['fail-before', 'lost-reply', 'reset', 'deadline', 'crash']

/** A fault and the index, from 0, of the call that it hits. */
export interface Shot {
  readonly at: number
  readonly fault: Fault
}

/** A fault that reached its call. */
export interface Hit extends Shot {
  readonly call: string
}

export function describeHits(hits: readonly Hit[]): string {
  if (hits.length === 0) return 'without any fault'
  return hits.map(({ fault, at, call }) => `${fault} at call ${at + 1} (${call})`).join(', ')
}

/** No store ends a statement of a relay or a consumer at a deadline of its own. */
export function possibleFault(name: string, fault: Fault): Fault {
  return fault === 'deadline' && /^(?:in|out)box\./.test(name) ? 'reset' : fault
}

/** The error that the caller of a faulty call gets. */
export function errorOf(fault: Fault, unsure: OnceCode = 'ONCE_STORE_UNAVAILABLE'): Error {
  return onceError(fault === 'deadline' ? 'ONCE_DEADLINE' : unsure, { detail: `simulated: ${fault}` })
}
