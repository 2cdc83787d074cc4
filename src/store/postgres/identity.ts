import type { DatabaseIdentity } from '../database-identity.ts'
import type { Row } from '../store.ts'
import type { PgDriver } from './driver/driver.ts'
import { sqlStateOf } from './driver/sqlstate.ts'
import { told } from './errors.ts'
import type { Bind, StatementName } from './statements.ts'

/** SQLSTATEs of databases that speak PostgreSQL's protocol but lack a function, or do not let the role call it. */
const IS_LACKING = /^(0A000|42883|42501)$/
const FIRST_TIMELINE = '1'

/** Which database answers, as far as it can tell: a promotion must be seen although the role lacks another right. */
export async function identityOf(
  driver: Pick<PgDriver<never>, 'query'>,
  bind: Bind,
  schema: string,
): Promise<DatabaseIdentity> {
  const ask = (name: StatementName): Promise<readonly Row[]> => driver.query(bind(name, []))
  const orAsk =
    (name: StatementName) =>
    (error: unknown): Promise<readonly Row[]> => {
      if (!IS_LACKING.test(sqlStateOf(error) ?? '')) throw error
      return ask(name)
    }
  const [row] = await told(schema, () => ask('identity').catch(orAsk('timeline')).catch(orAsk('server')))
  const timeline = String(row?.['timeline'] ?? '')
  const database = String(row?.['database'] ?? '')
  return { server: String(row?.['server']), timeline: timeline === FIRST_TIMELINE ? '' : timeline, database }
}
