import { SHARDS } from '../../../limits.ts'
import { namespacesIn } from './namespace.ts'

/**
 * How the segments of events and acknowledgements turn over. A statement waits for other transactions no longer than
 * the retention's lock timeout. The next sweep tries again what was not possible now. Statements that any role may run
 * use the table, because only the owner has rights to its segments.
 */
export type SegmentTable = 'event' | 'ack'

/** Marks a segment whose writers have not been read yet. */
const UNSEEN = '?'

/**
 * Only one sweeper at a time. The lock is held until the end of the transaction, and nobody waits for it. $1 schema, $2
 * lock timeout
 */
export const SEGMENT_LOCK_SQL: string = `select pg_try_advisory_xact_lock(hashtextextended('effectively-once:segments:' || $1::text, 0)) as locked,
       set_config('lock_timeout', $2::text, true) as lock_timeout`

/**
 * The condition of a step. The step's own transaction checks it. An earlier statement may have read another server, if
 * a standby was promoted since, and that server may have been ahead.
 */
export function segmentInSql(schema: string, table: SegmentTable, no: number, states: readonly number[]): string {
  return `exists (select 1 from ${schema}.segment s where s.name = '${table}' and s.no = ${no} and s.state in (${states.join(', ')}))`
}

/** The next segment can be attached: no segment follows the current one. */
export function attachableSql(schema: string, table: SegmentTable, no: number): string {
  return `${segmentInSql(schema, table, no - 1, [2])} and not exists (select 1 from ${schema}.segment s where s.name = '${table}' and s.no >= ${no})`
}

/** Everybody knows the next segment, and nobody can write into the one before the one that is written. */
export function turnableSql(schema: string, table: SegmentTable, next: number): string {
  return `${segmentInSql(schema, table, next - 1, [2])} and ${quietInSql(schema, table, next, 1)}
   and not exists (select 1 from ${schema}.segment s where s.name = '${table}' and s.state = 3)`
}

/** The segment can be sealed: no transaction can write into it any more. */
export function sealableSql(schema: string, table: SegmentTable, no: number): string {
  return quietInSql(schema, table, no, 3)
}

/** Who wrote was looked at, and all of those have ended. */
function quietInSql(schema: string, table: SegmentTable, no: number, state: 1 | 3): string {
  return `exists (select 1 from ${schema}.segment s where s.name = '${table}' and s.no = ${no} and s.state = ${state}
   and '${UNSEEN}' <> all(s.waiting)
   and not exists (select 1 from (${writersSql(schema, table)}) w where w.virtualtransaction = any(s.waiting)))`
}

/** The segment is sealed, and every destination has passed it. */
export function countableSql(schema: string, no: number): string {
  return `${segmentInSql(schema, 'event', no, [4])} and (${passedSql(schema, no)})`
}

/** The segment is counted, every destination has passed it, and the resend window is over. */
export function droppableSql(schema: string, no: number, resendForMs: number): string {
  return `exists (select 1 from ${schema}.segment s where s.name = 'event' and s.no = ${no} and s.state = 5
   and extract(epoch from clock_timestamp() - s.since) * 1000 >= ${resendForMs}) and (${passedSql(schema, no)})`
}

/** The transactions that write into the table, or may be about to. Their table lock shows it. */
function writersSql(schema: string, table: SegmentTable): string {
  return `select l.virtualtransaction from pg_locks l
   where l.locktype = 'relation' and l.relation = '${schema}.${table}'::regclass and l.mode = 'RowExclusiveLock'
     and l.database = (select d.oid from pg_database d where d.datname = current_database())`
}

/**
 * All segments, oldest first. `open`: a transaction may still write into the segment, or does not know yet that it
 * exists.
 */
export function segmentStatesSql(schema: string, table: SegmentTable): string {
  return `
select s.no, s.state::int4 as state, s.events::float8 as events, extract(epoch from clock_timestamp() - s.since)::float8 * 1000 as age_ms,
       '${UNSEEN}' = any(s.waiting) as unseen,
       s.waiting <> '{}' and exists (select 1 from (${writersSql(schema, table)}) w where w.virtualtransaction = any(s.waiting)) as open,
       case when s.state = 2 then pg_table_size('${schema}.${table}_' || s.no)::float8 else 0 end as bytes
  from ${schema}.segment s where s.name = '${table}' order by s.no`
}

/**
 * Records the transactions that write now. They must end before the segment's state counts. This must be a separate
 * statement.
 */
export function seeWritersSql(schema: string, table: SegmentTable, no: number): string {
  return `update ${schema}.segment s set waiting = array(${writersSql(schema, table)}) where s.name = '${table}' and s.no = ${no}`
}

/** Creates the next segment. Attaching it blocks only other changes of the table, neither readers nor writers. */
export function attachSegmentSql(schema: string, table: SegmentTable, no: number): readonly string[] {
  return [
    `create table ${schema}.${table}_${no} (like ${schema}.${table} including defaults)`,
    `alter table ${schema}.${table} attach partition ${schema}.${table}_${no} for values in (${no})`,
    `insert into ${schema}.segment (name, no, state, waiting) values ('${table}', ${no}, 1, '{${UNSEEN}}')`,
  ]
}

/**
 * From now on, producers write into the next segment. Only older transactions can still write into the last one. The
 * sequence is for processes of an earlier version, which may run at the same time during an upgrade.
 */
export function turnOverSql(schema: string, table: SegmentTable, next: number): string {
  return `
with n as materialized (
  select case when has_sequence_privilege('${schema}.${table}_segment', 'update') then setval('${schema}.${table}_segment', ${next}) end
)
update ${schema}.segment s
   set state = s.state + 1, since = clock_timestamp(),
       waiting = case when s.no = ${next} then '{}'::text[] else '{${UNSEEN}}'::text[] end
  from n
 where s.name = '${table}' and (s.no = ${next} and s.state = 1 or s.no = ${next - 1} and s.state = 2)`
}

/** Advances the state only from the state before it, because another sweeper may have been quicker. */
export function markSegmentSql(schema: string, table: SegmentTable, no: number, state: 4 | 5 | 6, events = 0): string {
  const counted = state === 5 ? `, events = ${events}` : ''
  const since = state === 4 ? ', since = clock_timestamp()' : ''
  return `update ${schema}.segment s set state = ${state}${counted}${since}
 where s.name = '${table}' and s.no = ${no} and s.state in (${state - 1}, ${table === 'ack' ? 4 : state - 1})`
}

export function forgetSegmentSql(schema: string, table: SegmentTable, no: number): string {
  return `delete from ${schema}.segment s where s.name = '${table}' and s.no = ${no} and s.state = 6`
}

/**
 * Whether every destination has passed the whole sealed segment. Each namespace with events in it must have a
 * destination: nothing is dropped before it was sent somewhere. Costs one index lookup per shard and namespace.
 */
function passedSql(schema: string, no: number): string {
  return `
select exists (select 1 from ${schema}.shard) and not exists (
  select 1 from (${namespacesIn(schema, no)}) n where not exists (select 1 from ${schema}.shard d where d.shard / ${SHARDS} = n.no)
) and not exists (
  select 1 from ${schema}.shard d
   cross join lateral (select max(e.seq) as seq from ${schema}.event e where e.segment = ${no} and e.shard = d.shard) l
   where l.seq > coalesce((select max(a.cursor) from ${schema}.ack a where a.destination = d.destination and a.shard = d.shard), 0)
)`
}

/** Compares the stored events with the count of each destination, shard by shard. Also returns the sum. */
export function countSegmentSql(schema: string, no: number): string {
  return `
with c as materialized (
  select e.shard, count(*) as stored from ${schema}.event e where e.segment = ${no} group by e.shard
)
select d.destination, d.shard::int4 as shard, c.stored::float8 as stored, a.counted::float8 as acknowledged,
       (select coalesce(sum(stored), 0) from c)::float8 as events
  from (select true) one
  left join (c join ${schema}.shard d on d.shard = c.shard
    cross join lateral (
      select coalesce(max(k.counted), 0) as counted from ${schema}.ack k
       where k.destination = d.destination and k.shard = d.shard and k.event_segment = ${no}) a) on a.counted <> c.stored`
}

/** Deletes the links of dropped events, except the last one of each ordered aggregate. */
export function sweepLinksSql(schema: string, no: number): readonly string[] {
  const sweep = (table: string, same: string): string => `
delete from ${schema}.${table} l
 where l.seq <= (select max(e.seq) from ${schema}.event e where e.segment = ${no})
   and exists (select 1 from ${schema}.${table} n where ${same} and n.seq > l.seq)`
  return [
    sweep('link', 'n.aggregateid = l.aggregateid'),
    sweep('namespace_link', 'n.no = l.no and n.aggregateid = l.aggregateid'),
  ]
}

/**
 * Copies held events, so that they outlive their segment. The table's lock prevents that a relay holds another one
 * meanwhile.
 */
export function keepHeldSql(schema: string, no: number): string {
  return `
insert into ${schema}.event (seq, shard, id, aggregatetype, aggregateid, type, payload, headers, created_at, segment)
select e.seq, e.shard, e.id, e.aggregatetype, e.aggregateid, e.type, e.payload, e.headers, e.created_at, 0
  from (select distinct h.shard, h.seq from ${schema}.held h) h
  join ${schema}.event_${no} e on e.shard = h.shard and e.seq = h.seq`
}

/**
 * Deletes copied events that no destination holds any more, with their rows of `delayed`. Skips a row that a caller is
 * cancelling. $1 limit
 */
export function sweepKeptSql(schema: string): string {
  return `
with e as (
  delete from ${schema}.event_0 e where e.ctid in (
    select k.ctid from ${schema}.event_0 k
     where not exists (select 1 from ${schema}.held h where h.shard = k.shard and h.seq = k.seq) limit $1::int4)
  returning e.id, e.seq, e.shard
)
delete from ${schema}.delayed d where (d.id, d.shard) in (
  select x.id, x.shard from ${schema}.delayed x join e on e.id = x.id and e.seq = x.seq and e.shard = x.shard
     for update of x skip locked)`
}

/**
 * Copies the newest cursor of each shard, and the newest count of each uncounted segment, into the current segment.
 * Runs under the table's lock.
 */
export function copyAcksSql(schema: string, no: number): string {
  const columns = 'destination, shard, cursor, token, trying_to, attempt, event_segment, counted'
  return `
insert into ${schema}.ack (${columns})
select ${columns} from (
  select a.* from ${schema}.shard d
   cross join lateral (
     select * from ${schema}.ack k where k.destination = d.destination and k.shard = d.shard
      order by k.cursor desc, k.token desc, k.segment desc limit 1) a
  union
  select a.* from ${schema}.shard d
   cross join ${schema}.segment s
   cross join lateral (
     select * from ${schema}.ack k where k.destination = d.destination and k.shard = d.shard and k.event_segment = s.no
      order by k.cursor desc, k.token desc, k.segment desc limit 1) a
   where s.name = 'event' and s.state < 5
) newest where newest.segment = ${no}
on conflict do nothing`
}

/** All readers and writers wait for this lock, so its own wait is short: see the lock timeout. */
export function lockTableSql(schema: string, table: SegmentTable): string {
  return `lock table ${schema}.${table} in access exclusive mode`
}

/** Detaching is quick. The files are deleted later, when no transaction waits for the table's lock. */
export function detachSegmentSql(schema: string, table: SegmentTable, no: number): string {
  return `alter table ${schema}.${table} detach partition ${schema}.${table}_${no}`
}

export function dropSegmentSql(schema: string, table: SegmentTable, no: number): string {
  return `drop table if exists ${schema}.${table}_${no}`
}
