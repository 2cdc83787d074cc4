import type { TripOutcome } from './pipeline.ts'
import { isPlanStale, isPreparedStatementLost } from './sqlstate.ts'
import type { FrequentStatements } from './user-statements.ts'
import type { Watchdog } from './watchdog.ts'

/** The state that all connections of a driver share. */
export interface PgDriverContext {
  /** False once a pooler was seen that does not keep prepared statements. */
  prepared: boolean
  readonly frequent: FrequentStatements
  readonly onTrip: ((statements: number) => void) | undefined
  readonly watchdog: Watchdog
  /**
   * A statement that was sent at this time got no answer. Every connection that has not answered since may be silent
   * too.
   */
  silentAt: number
}

/**
 * Whether only the statement's name was at fault: a pooler lost the prepared statement, or its plan is stale. The
 * failure rolled everything back, so the statement may run once more. After a loss, names are no longer used.
 */
export function isNamesFault(context: PgDriverContext, { error }: TripOutcome): boolean {
  if (isPreparedStatementLost(error)) context.prepared = false
  else return isPlanStale(error)
  return true
}
