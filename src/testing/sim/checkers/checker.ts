import type { TraceEvent } from '../trace.ts'

/** One promise, as a function over everything that happened. What it returns is broken. */
export interface Checker {
  /** The invariant's number in the reliability programme. */
  readonly id: string
  readonly says: string
  check(trace: readonly TraceEvent[]): string[]
}
