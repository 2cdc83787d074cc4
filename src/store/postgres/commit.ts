import type { PgConnection, PgStatement } from './driver/driver.ts'
import { commitError, sessionError } from './errors.ts'

/** The last statement and COMMIT, with what a failure of either means. `meaning`: where no handler ran alone. */
export function commit(
  connection: PgConnection<unknown>,
  last: PgStatement | undefined,
  schema: string,
  meaning: typeof sessionError = sessionError,
): Promise<'committed' | 'rolledBack'> {
  return connection.commit(last).catch((error: unknown) => {
    throw commitError(error, schema, meaning)
  })
}
