import { shardClassIn } from '../store/postgres/sql/lock.ts'
import { REWOUND } from '../store/rewound.ts'
import { rewindsOf, REWINDS_MAX, REWINDS_MS } from './facts.ts'
import type { Looked, ServerFacts } from './facts.ts'
import type { Connection, Opened } from './open-store.ts'

/** A producer that holds a shard for longer than this holds up others. */
const SHARD_HELD_MS = 2_000
const DAYS_AHEAD = 2
/** How many answers are counted at most. */
const COUNTED = 10_000

export async function inspectPostgres(opened: Opened, schema: string): Promise<Looked> {
  const { query } = opened
  const unclaimed = await query(`select name from ${schema}.unclaimed order by name`)
  return {
    unclaimed: unclaimed.map(({ name }) => String(name)),
    rewinds: rewindsOf(await query(rewindsSql(schema))),
    server: await inspectServer(opened, schema),
  }
}

function rewindsSql(schema: string): string {
  return `
select namespace, extract(epoch from at)::float8 * 1000 as at, detail::text as detail from ${schema}.audit
 where action = '${REWOUND}' and at > clock_timestamp() - ${REWINDS_MS} * interval '1 millisecond' order by seq desc limit ${REWINDS_MAX}`
}

async function inspectServer(opened: Opened, schema: string): Promise<ServerFacts> {
  const { query } = opened
  const missing = await query(`
select to_char(d, 'YYYY-MM-DD') as day from generate_series((clock_timestamp() at time zone 'utc')::date::timestamp,
       (clock_timestamp() at time zone 'utc')::date + ${DAYS_AHEAD} * interval '1 day', interval '1 day') d
 where to_regclass('${schema}.answer_' || to_char(d, 'YYYYMMDD')) is null`)
  const [strays] = await query(
    `select count(*)::int4 as n from (select 1 from ${schema}.answer_default limit ${COUNTED}) s`,
  )
  const [locks] = await query(`
select (current_setting('max_locks_per_transaction')::int8 * (current_setting('max_connections')::int8 + current_setting('max_prepared_transactions')::int8))::float8 as budget,
       (select count(*)::int4 from pg_locks where locktype = 'advisory') as held,
       current_setting('transaction_read_only') = 'on' as read_only`)
  const holders = await query(
    `
select a.pid, count(*)::int4 as shards, max(extract(epoch from clock_timestamp() - a.xact_start))::float8 * 1000 as ms,
       max(coalesce(a.state, '')) as state, max(coalesce(left(a.query, 80), '')) as query
  from pg_locks l join pg_stat_activity a on a.pid = l.pid
 where l.locktype = 'advisory' and l.classid = $2::int8::oid and l.objsubid = 2 and l.granted
   and l.database = (select oid from pg_database where datname = current_database())
   and a.xact_start < clock_timestamp() - $1 * interval '1 millisecond'
 group by a.pid order by 3 desc`,
    [SHARD_HELD_MS, shardClassIn(schema) >>> 0],
  )
  return {
    missingDays: missing.map(({ day }) => String(day)),
    strays: Number(strays?.['n']),
    lockBudget: Number(locks?.['budget']),
    locksHeld: Number(locks?.['held']),
    readOnly: locks?.['read_only'] === true,
    shardHolders: holders.map((row) => ({
      pid: Number(row['pid']),
      shards: Number(row['shards']),
      ms: Number(row['ms']),
      state: String(row['state']),
      query: String(row['query']),
    })),
    skewMs: await skewOf(opened),
    ...(await poolerOf(opened)),
  }
}

/** The result is wrong by at most half a round trip. */
async function skewOf({ query }: Opened): Promise<number> {
  const before = Date.now()
  const [row] = await query(`select extract(epoch from clock_timestamp())::float8 * 1000 as now`)
  const after = Date.now()
  const skew = Number(row?.['now']) - (before + after) / 2
  return Math.abs(skew) <= (after - before) / 2 ? 0 : Math.round(skew)
}

/** Behind a pooler, the server sees other ports than ours. A pooler that switches servers loses prepared statements. */
async function poolerOf({ connect }: Opened): Promise<{ between: boolean; preparedLost: boolean }> {
  if (!connect) return { between: false, preparedLost: false }
  const connections: Connection[] = []
  try {
    connections.push(await connect(), await connect())
    const [first] = connections
    const seen = await first?.query({ text: 'select inet_client_port() as port' })
    const port = seen?.rows[0]?.['port'] ?? null
    const between = port !== null && first?.localPort !== undefined && Number(port) !== first.localPort
    return { between, preparedLost: await losesPrepared(connections) }
  } finally {
    for (const connection of connections) connection.release()
  }
}

async function losesPrepared(connections: readonly Connection[]): Promise<boolean> {
  try {
    for (let round = 0; round < 3; round++) {
      const ask = (connection: Connection): Promise<unknown> =>
        connection.query({ name: 'effectively_once_doctor', text: 'select $1::int4 as n', values: [round] })
      await Promise.all(connections.map(ask))
    }
    return false
  } catch (error) {
    const { code } = error as { code?: unknown }
    if (code === '26000' || code === '42P05') return true
    throw error
  }
}
