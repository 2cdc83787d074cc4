import { SHARDS } from '../limits.ts'
import { shardClassIn } from '../store/postgres/sql/lock.ts'
import { REWOUND } from '../store/rewound.ts'
import { consumersOf, destinationsOf, maybe, namespacesOf, rewindsOf, REWINDS_MAX, REWINDS_MS } from './facts.ts'
import type { Looked, ServerFacts } from './facts.ts'
import type { Connection, Opened } from './open-store.ts'

/** A producer that holds a shard for longer than this holds up others. */
const SHARD_HELD_MS = 2_000
const DAYS_AHEAD = 2
/** How many events of a shard are counted at most. */
const COUNTED = 10_000

export async function inspectPostgres(opened: Opened, schema: string): Promise<Looked> {
  const { query } = opened
  const [records] = await query(`
select (count(*) filter (where state = 1))::int4 as running, (count(*) filter (where state = 1 and lease_until < clock_timestamp()))::int4 as lapsed,
       (count(*) filter (where state = 3))::int4 as unknown from ${schema}.record where state <> 2`)
  const unclaimed = await query(`select name from ${schema}.unclaimed order by name`)
  return {
    namespaces: namespacesOf(await query(namespacesSql(schema))),
    unclaimed: unclaimed.map(({ name }) => String(name)),
    inProgress: Number(records?.['running']),
    lapsed: Number(records?.['lapsed']),
    unknown: Number(records?.['unknown']),
    destinations: destinationsOf(await query(destinationsSql(schema))),
    consumers: consumersOf(await query(consumersSql(schema))),
    rewinds: rewindsOf(await query(rewindsSql(schema))),
    server: await inspectServer(opened, schema),
  }
}

function destinationsSql(schema: string): string {
  return `
select s.destination, sum(w.n)::int4 as waiting, max(w.age)::float8 as oldest_ms,
       (select count(*)::int4 from ${schema}.relay r where r.destination = s.destination and r.until > clock_timestamp()) as relays,
       (select count(*)::int4 from ${schema}.held h where h.destination = s.destination and h.state = 3) as parked
  from ${schema}.shard s
  cross join lateral (
    select count(*) as n, extract(epoch from clock_timestamp() - min(e.created_at)) * 1000 as age from (
      select created_at from ${schema}.event where shard = s.shard
         and seq > coalesce((select max(cursor) from ${schema}.ack a where a.destination = s.destination and a.shard = s.shard), 0)
       order by seq limit ${COUNTED}) e) w
 group by s.destination order by s.destination`
}

/** Each with its events, where it has no destination. Nobody registered: what there is belongs to the first to come. */
function namespacesSql(schema: string): string {
  return `
select n.no, n.name, e.events, e.oldest_ms
  from (select no::int4 as no, name from ${schema}.namespace union all select 0, null where not exists (select 1 from ${schema}.namespace)) n
  left join lateral (
    select count(*)::int4 as events, (extract(epoch from clock_timestamp() - min(x.created_at)) * 1000)::float8 as oldest_ms
      from (select created_at from ${schema}.event where shard >= n.no * ${SHARDS} and shard < (n.no + 1) * ${SHARDS} limit ${COUNTED}) x) e
    on not exists (select 1 from ${schema}.shard d where d.shard / ${SHARDS} = n.no)
 order by n.no`
}

function consumersSql(schema: string): string {
  return `
select k.name, extract(epoch from clock_timestamp() - k.seen_at)::float8 * 1000 as seen_ago, k.remember_ms,
       (select count(*)::int4 from ${schema}.dead_letter d where d.consumer = k.name and d.state = 1
           and d.parked_at < clock_timestamp() - k.remember_ms * interval '1 millisecond') as older
  from ${schema}.consumer k order by k.name`
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
       (select count(*)::int4 from pg_locks where locktype = 'advisory') as held`)
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

/** Half a round trip is the most that it can be wrong. */
async function skewOf({ query }: Opened): Promise<number> {
  const before = Date.now()
  const [row] = await query(`select extract(epoch from clock_timestamp())::float8 * 1000 as now`)
  const after = Date.now()
  const skew = Number(row?.['now']) - (before + after) / 2
  return Math.abs(skew) <= (after - before) / 2 ? 0 : Math.round(skew)
}

/** A pooler shows our connections under ports of its own. One that hands out servers anew loses prepared statements. */
async function poolerOf({ connect }: Opened): Promise<{ between: boolean; preparedLost: boolean }> {
  if (!connect) return { between: false, preparedLost: false }
  const connections: Connection[] = []
  try {
    connections.push(await connect(), await connect())
    const [first] = connections
    const seen = await first?.query({ text: 'select inet_client_port() as port' })
    const port = maybe(seen?.rows[0]?.['port'])
    const between = port !== null && first?.localPort !== undefined && port !== first.localPort
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
