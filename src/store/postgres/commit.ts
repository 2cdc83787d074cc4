import type { PgConnection, PgStatement } from './driver.ts'
import { commitError } from './errors.ts'

/** The last statement and COMMIT, with what a failure of either means. */
export async function commit(
  connection: PgConnection<unknown>,
  last: PgStatement,
  schema: string,
): Promise<'committed' | 'rolledBack'> {
  try {
    return await connection.commit(last)
  } catch (error) {
    throw commitError(error, schema)
  }
}
