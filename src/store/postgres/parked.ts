import { onceError } from '../../errors.ts'
import { RELAY_SETTLE_MS } from '../../limits.ts'
import { parkedLineOf, parkedOf } from '../sql/parked-rows.ts'
import type { Parked, SettledParked, SettleParkedParams } from '../parked.ts'
import { arrayLiteral } from './array-literal.ts'
import type { PgDriver, PgStatement } from './driver/driver.ts'
import { told } from './errors.ts'
import type { Bind } from './statements.ts'

/** Parked events on PostgreSQL. */
export function postgresParked<Tx>(driver: PgDriver<Tx>, bind: Bind, schema: string): Parked {
  return {
    async list({ destination, aggregateId, id, after, limit }) {
      const statement = bind('listParked', [destination, aggregateId, id, after, limit])
      return (await told(schema, () => driver.query(statement))).map(parkedOf)
    },
    async lines({ destination, aggregateId, after, limit }) {
      const from = [after?.shard ?? -1, after?.aggregateId ?? '']
      const statement = bind('parkedLines', [destination, aggregateId, ...from, limit])
      const rows = await told(schema, () => driver.query(statement))
      return rows.map(parkedLineOf)
    },
    settle: (params) => told(schema, () => settle(driver, bind, params)),
  }
}

async function settle<Tx>(driver: PgDriver<Tx>, bind: Bind, params: SettleParkedParams): Promise<SettledParked> {
  const { destination, shard, aggregateIds, release, skip, limit } = params
  const { connection, rows } = await driver.begin(bind('lockShard', [destination, shard, String(RELAY_SETTLE_MS)]))
  try {
    const aggregates = arrayLiteral(aggregateIds)
    const shards = arrayLiteral(aggregateIds.map(() => shard))
    const statements: PgStatement[] = [
      bind('skipParked', [destination, shard, arrayLiteral(skip)]),
      bind('releaseParked', [destination, shard, release ? aggregates : arrayLiteral([])]),
      bind('unparkOrphans', [destination, shards, aggregates, limit]),
      bind('promoteHeld', [destination, shards, aggregates]),
    ]
    // No shard: the destination was removed, with all its held events.
    const outcome = rows.length === 0 ? null : await connection.pipeline(statements, 'ours')
    if (outcome?.kind === 'failed') throw outcome.error
    if ((await connection.commit()) !== 'committed') throw onceError('ONCE_ROLLED_BACK')
    const [skipped = 0, heads = 0, orphans = 0] = (outcome?.rows ?? []).map(({ length }) => length)
    return { released: heads + orphans, skipped, more: orphans === limit }
  } catch (error) {
    await connection.rollback()
    throw error
  }
}
