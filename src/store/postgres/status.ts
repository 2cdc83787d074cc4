import { partsOf } from '../namespaced/names.ts'
import { consumerStatusOf, destinationStatusOf, maybe, operationsStatusOf } from '../sql/status-rows.ts'
import type { StatusParams, StoredStatus } from '../status.ts'
import type { Row } from '../store.ts'
import type { PgDriver } from './driver/driver.ts'
import { told } from './errors.ts'
import * as sql from './sql/status.ts'

/** One statement after the other, on connections of the pool. */
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
  return {
    operations: operationsStatusOf(operations),
    destinations: destinations.map(destinationStatusOf),
    unsent: { events: Number(unsent?.['events'] ?? 0), oldestMs: maybe(unsent?.['oldest_ms']) },
    consumers: consumers.filter(({ name }) => partsOf(String(name)).no === no).map(consumerStatusOf),
    sweptAgoMs: sweptAgo(maybe(sizes[0]?.['swept_ms'])),
    sizes: sizes.map((row) => ({
      table: String(row['name']),
      rows: row['known'] === true ? Number(row['rows']) : null,
      bytes: Number(row['bytes']),
    })),
  }
}

/** Whoever sweeps now is expected to end later. */
function sweptAgo(ms: number | null): number | null {
  return ms === null ? null : Math.max(0, ms)
}
