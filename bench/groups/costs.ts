import pg from 'pg'
import { createDatabase, onServer, openOnce, openPool } from '../support/database.ts'
import { repeat } from '../support/measure.ts'
import type { Scenario } from '../support/measure.ts'
import { startWireMeter } from '../support/wire-meter.ts'
import type { WireMeter } from '../support/wire-meter.ts'
import type { Bench } from './group.ts'
import { MAIN } from './main.ts'

/** Per operation. */
export interface Cost {
  readonly statements: number
  readonly trips: number
  readonly rowsWritten: number
  readonly walBytes: number
}

const WARM_UP = 2048
const OPERATIONS = 2048

/** What one operation asks of the server, counted on the wire and by the server's own statistics. */
export async function countCosts(bench: Bench): Promise<Record<string, Cost>> {
  const costs: Record<string, Cost> = {}
  for (const name of Object.keys(MAIN).filter((name) => bench.wants(name))) {
    costs[name] = await countOne(bench.serverUrl, name)
    bench.progress(`${name} counted`)
  }
  return costs
}

async function countOne(serverUrl: string, name: string): Promise<Cost> {
  const url = await createDatabase(serverUrl, 'bench_costs')
  const meter = await startWireMeter(url)
  const pool = openPool(meter.url)
  const once = await openOnce(pool)
  const observer = new pg.Client({ connectionString: url })
  await observer.connect()
  try {
    const scenario = await MAIN[name]?.(pool, once)
    if (!scenario) throw new Error(`there is no scenario ${name}`)
    return await count(scenario, { meter, pool, observer })
  } finally {
    await observer.end()
    await once.close()
    await pool.end()
    await meter.close()
    await onServer(serverUrl, 'drop database bench_costs with (force)')
  }
}

async function count(
  scenario: Scenario,
  { meter, pool, observer }: { meter: WireMeter; pool: pg.Pool; observer: pg.Client },
): Promise<Cost> {
  await repeat(scenario, WARM_UP)
  // Else the first change of each page after a checkpoint would be counted as the operation's.
  await observer.query('checkpoint')
  await repeat(scenario, WARM_UP)
  await flushStatistics(pool)
  const before = await serverCounters(observer)
  meter.reset()
  await repeat(scenario, OPERATIONS)
  const { statements, trips } = meter.count
  await flushStatistics(pool)
  const after = await serverCounters(observer)
  return {
    statements: round(statements / OPERATIONS),
    trips: round(trips / OPERATIONS),
    rowsWritten: round((after.rows - before.rows) / OPERATIONS),
    walBytes: Math.round((after.wal - before.wal) / OPERATIONS),
  }
}

/** Every connection keeps its counters to itself until it is told otherwise. */
async function flushStatistics(pool: pg.Pool): Promise<void> {
  const clients = await Promise.all(Array.from({ length: pool.totalCount }, () => pool.connect()))
  for (const client of clients) {
    await client.query('select pg_stat_force_next_flush()')
    client.release()
  }
}

async function serverCounters(observer: pg.Client): Promise<{ rows: number; wal: number }> {
  const { rows } = await observer.query<{ rows: number; wal: number }>(`
    select (select coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::float8 from pg_stat_user_tables) as rows,
           (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::float8 as wal`)
  return rows[0] ?? { rows: 0, wal: 0 }
}

function round(value: number): number {
  return Math.round(value * 1000) / 1000
}
