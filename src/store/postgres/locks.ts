import { LOCK_SHARE } from '../../limits.ts'
import { LockBudget } from '../lock-budget.ts'
import type { PgDriver } from './driver/driver.ts'
import { told } from './errors.ts'
import { isRaised, sqlStateOf } from './driver/sqlstate.ts'

const OUT_OF_SHARED_MEMORY = '53200'

/** The size of the server's shared lock table, which its settings determine. */
const LOCK_TABLE_SQL = `
select (current_setting('max_locks_per_transaction')::int8 * (current_setting('max_connections')::int8 + current_setting('max_prepared_transactions')::int8))::float8 as locks`

export function lockBudget<Tx>(driver: PgDriver<Tx>, schema: string): LockBudget {
  const read = async (): Promise<number> => {
    const [row] = await told(schema, () => driver.query({ name: '', text: LOCK_TABLE_SQL, values: [] }))
    return Number(row?.['locks']) / LOCK_SHARE
  }
  return new LockBudget(read, (error) => sqlStateOf(error) === OUT_OF_SHARED_MEMORY && !isRaised(error))
}
