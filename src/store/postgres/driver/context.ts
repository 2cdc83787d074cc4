import type { TripOutcome } from './pipeline.ts'
import { isPlanStale, isPreparedStatementLost } from './sqlstate.ts'
import type { FrequentStatements } from './user-statements.ts'
import type { Watchdog } from './watchdog.ts'

/** What a driver remembers and tells, whichever connection it uses. */
export interface PgDriverContext {
  /** False once a pooler was seen that does not keep prepared statements. */
  prepared: boolean
  readonly frequent: FrequentStatements
  readonly onTrip: ((statements: number) => void) | undefined
  readonly watchdog: Watchdog
}

/**
 * Only a statement's name failed it, and what there was is undone: it may run once more. A pooler lost the prepared
 * statement (names are not used any more, then), or it is stale.
 */
export function isNamesFault(context: PgDriverContext, { error }: TripOutcome): boolean {
  if (isPreparedStatementLost(error)) context.prepared = false
  else return isPlanStale(error)
  return true
}
