import pg from 'pg'
import { onServer } from './database.ts'
import type { BenchServer } from './server.ts'
import type { WireMeter } from './wire-meter.ts'

/** Of one operation, as the wire and the server's own statistics tell. */
export interface Cost {
  readonly statements: number
  readonly trips: number
  readonly rowsWritten: number
  readonly walBytes: number
}

export interface Counting {
  /** The server, not by way of the meter. */
  readonly url: string
  readonly meter: WireMeter
  readonly warmUp: number
  readonly operations: number
  /** Exactly so many operations. */
  repeat(times: number): Promise<unknown>
  /** Every connection keeps its counters to itself until it is told otherwise. */
  flush(): Promise<unknown>
}

export async function countCost({ url, meter, warmUp, operations, repeat, flush }: Counting): Promise<Cost> {
  const observer = new pg.Client({ connectionString: url })
  await observer.connect()
  try {
    await repeat(warmUp)
    await flush()
    const before = await serverCounters(observer)
    meter.reset()
    await repeat(operations)
    const { statements, trips } = meter.count
    await flush()
    const after = await serverCounters(observer)
    return {
      statements: round(statements / operations),
      trips: round(trips / operations),
      rowsWritten: round((after.rows - before.rows) / operations),
      walBytes: Math.round((after.wal - before.wal) / operations),
    }
  } finally {
    await observer.end()
  }
}

const QUIET = ['full_page_writes', 'autovacuum'] as const

/**
 * The first change of each page after a checkpoint writes the whole page, and a vacuum writes at a moment of its own: no
 * operation is to blame for either. Both are off while `work` runs, on a server that is ours alone.
 */
export async function withQuietWal<T>({ url, isOurs }: ServerToSet, work: () => Promise<T>): Promise<T> {
  if (!isOurs) return work()
  for (const setting of QUIET) await onServer(url, `alter system set ${setting} = off`)
  await onServer(url, 'select pg_reload_conf()')
  try {
    return await work()
  } finally {
    for (const setting of QUIET) await onServer(url, `alter system reset ${setting}`)
    await onServer(url, 'select pg_reload_conf()')
  }
}

type ServerToSet = Pick<BenchServer, 'url' | 'isOurs'>

export async function flushStatistics(pool: pg.Pool): Promise<void> {
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
