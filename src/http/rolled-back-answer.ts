import type { Produced } from '../operation/outcome.ts'

/** Thrown through the final transaction of a leased operation to roll it back: its answer keeps no rows. */
export class RolledBackAnswer extends Error {
  readonly produced: Produced

  constructor(produced: Produced) {
    super('the answer given inside commit keeps no rows')
    this.produced = produced
  }
}
