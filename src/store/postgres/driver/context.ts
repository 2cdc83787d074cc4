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
