/**
 * What can be done to one call of the store. `fail-before`: it never arrives. `lost-reply`: it happens, and the caller
 * is told that it did not. `reset`: the connection breaks, its transaction is rolled back. `deadline`: the server ends
 * the transaction.
 */
export type Fault = 'fail-before' | 'lost-reply' | 'reset' | 'deadline'

export const FAULTS: readonly Fault[] = ['fail-before', 'lost-reply', 'reset', 'deadline']

/** A fault and the call it is meant for, counted from 0. */
export interface Shot {
  readonly at: number
  readonly fault: Fault
}

/** A fault that found its call. */
export interface Hit extends Shot {
  readonly call: string
}

export function describeHits(hits: readonly Hit[]): string {
  if (hits.length === 0) return 'without any fault'
  return hits.map(({ fault, at, call }) => `${fault} at call ${at + 1} (${call})`).join(', ')
}
