import type { TraceEvent } from '../trace.ts'

/** One invariant, as a function of the whole trace. It returns the violations. */
export interface Checker {
  /** The number of the invariant. */
  readonly id: string
  readonly says: string
  check(trace: readonly TraceEvent[]): string[]
}
