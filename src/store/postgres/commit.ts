import type { PgConnection, PgStatement } from './driver.ts'
import { commitError } from './errors.ts'

/** The last statement and COMMIT, with what a failure of either means. */
export function commit(
  connection: PgConnection<unknown>,
  last: PgStatement | undefined,
  schema: string,
): Promise<'committed' | 'rolledBack'> {
  return connection.commit(last).catch((error: unknown) => {
    throw commitError(error, schema)
  })
}
