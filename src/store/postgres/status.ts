import { partsOf } from '../namespaced/names.ts'
import { maybe, statusRowOf } from '../sql/status-rows.ts'
import { NOTHING, type StatusParams, type StoredStatus } from '../status.ts'
import type { Row } from '../store.ts'
import type { PgDriver } from './driver/driver.ts'
import { told } from './errors.ts'
import * as sql from './sql/status.ts'

/** Runs one statement after the other, on connections of the pool. */
export async function postgresStatus<Tx>(
  driver: PgDriver<Tx>,
  schema: string,
  { namespace, no }: StatusParams,
): Promise<StoredStatus> {
  const ask = (text: string, values: readonly unknown[]): Promise<readonly Row[]> =>
    told(schema, () => driver.query({ name: '', text, values }))
  const [operations] = await ask(sql.operationsStatusSql(schema), [namespace])
  const destinations = await ask(sql.destinationsStatusSql(schema), [no])
  const [unsent] = destinations.length > 0 ? [] : await ask(sql.unsentStatusSql(schema), [no])
  const consumers = await ask(sql.consumersStatusSql(schema), [])
  const sizes = await ask(sql.sizesStatusSql(schema), [schema])
  const sweptMs = maybe(sizes[0]?.['swept_ms'])
  return {
    operations: statusRowOf(operations as Row),
    destinations: destinations.map(statusRowOf),
    unsent: statusRowOf(unsent ?? NOTHING),
    consumers: consumers.filter(({ name }) => partsOf(String(name)).no === no).map(statusRowOf),
    // The end of a running sweep's lease is in the future, so the age may be negative.
    sweptAgoMs: sweptMs && Math.max(0, sweptMs),
    sizes: sizes.map((row) => ({
      table: String(row['name']),
      rows: maybe(row['rows']),
      bytes: Number(row['bytes']),
    })),
  }
}
