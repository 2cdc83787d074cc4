import type { PgConnection, PgStatement } from './driver/driver.ts'
import { commitError, sessionError } from './errors.ts'

/** The last statement and COMMIT, with what a failure of either means. `meaning`: where no handler ran alone. */
export function commit(
  connection: PgConnection<unknown>,
  last: PgStatement | undefined,
  schema: string,
  meaning: typeof sessionError = sessionError,
): Promise<'committed' | 'rolledBack'> {
  return explained(connection.commit(last), schema, meaning)
}

/** A commit, with what its failure means. */
export function explained<T>(
  ending: Promise<T>,
  schema: string,
  meaning: typeof sessionError = sessionError,
): Promise<T> {
  return ending.catch((error: unknown) => {
    throw commitError(error, schema, meaning)
  })
}
