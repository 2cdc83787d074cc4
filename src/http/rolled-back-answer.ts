import type { Produced } from '../operation/outcome.ts'

/** Thrown through the final transaction of a leased operation to roll it back. Only the answer is stored. */
export class RolledBackAnswer extends Error {
  readonly produced: Produced

  constructor(produced: Produced) {
    super('the answer of commit is stored without its rows')
    this.produced = produced
  }
}
