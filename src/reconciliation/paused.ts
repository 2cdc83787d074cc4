import type { ReconciliationTotals } from './types.ts'

export type Compensated = 'compensated' | 'refused' | 'failed' | 'counted'

/** The run stops here. The next run continues. */
export class Paused extends Error {
  /** What became of the last finding. It is counted, although the run stops at it. */
  readonly last: Compensated
  /** Of the page that is not done. */
  totals: ReconciliationTotals | undefined

  constructor(reason: string, last: Compensated = 'counted') {
    super(reason)
    this.last = last
  }
}
