import { SHARDS } from '../../../limits.ts'
import { namespacesIn } from './namespace.ts'

/**
 * How segments of events and acknowledgements turn over. Nothing here waits for a transaction for longer than the
 * retention's lock timeout, and whatever was not possible now is tried by the next sweep. What need not be the owner's
 * goes through the table, not its segments: rights to those are nobody's but the owner's.
 */
export type SegmentTable = 'event' | 'ack'

/** Of a segment whose writers were not looked at yet. */
const UNSEEN = '?'

/** One sweeper at a time. Held until the end of the transaction; never waited for. $1 schema, $2 lock timeout */
export const SEGMENT_LOCK_SQL: string = `select pg_try_advisory_xact_lock(hashtextextended('effectively-once:segments:' || $1::text, 0)) as locked,
       set_config('lock_timeout', $2::text, true) as lock_timeout`

/** Whoever writes into the table, or may be about to: it has locked it. */
function writersSql(schema: string, table: SegmentTable): string {
  return `select l.virtualtransaction from pg_locks l
   where l.locktype = 'relation' and l.relation = '${schema}.${table}'::regclass and l.mode = 'RowExclusiveLock'
     and l.database = (select d.oid from pg_database d where d.datname = current_database())`
}

/** What there is, oldest first. `open`: somebody may still write into it, or does not know yet that it exists. */
export function segmentStatesSql(schema: string, table: SegmentTable): string {
  return `
select s.no, s.state::int4 as state, s.events::float8 as events, extract(epoch from clock_timestamp() - s.since)::float8 * 1000 as age_ms,
       '${UNSEEN}' = any(s.waiting) as unseen,
       s.waiting <> '{}' and exists (select 1 from (${writersSql(schema, table)}) w where w.virtualtransaction = any(s.waiting)) as open,
       case when s.state = 2 then pg_table_size('${schema}.${table}_' || s.no)::float8 else 0 end as bytes
  from ${schema}.segment s where s.name = '${table}' order by s.no`
}

/** Looks who writes now: those must end before the segment's state means anything. A statement of its own. */
export function seeWritersSql(schema: string, table: SegmentTable, no: number): string {
  return `update ${schema}.segment s set waiting = array(${writersSql(schema, table)}) where s.name = '${table}' and s.no = ${no}`
}

/** The next segment. Attaching locks out only other changes of the table, neither readers nor writers. */
export function attachSegmentSql(schema: string, table: SegmentTable, no: number): readonly string[] {
  return [
    `create table ${schema}.${table}_${no} (like ${schema}.${table} including defaults)`,
    `alter table ${schema}.${table} attach partition ${schema}.${table}_${no} for values in (${no})`,
    `insert into ${schema}.segment (name, no, state, waiting) values ('${table}', ${no}, 1, '{${UNSEEN}}')`,
  ]
}

/**
 * From now on the next segment is written. Only what began before can still write into the last one. The sequence is for
 * processes of an earlier version, which may run beside this one during an upgrade.
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

/** The next state, from the one before it only: another sweeper may have been quicker. */
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
 * Whether every destination has passed all of a sealed segment, and each namespace with events in it has one: until
 * something was sent somewhere, nothing is dropped. One look at an index per shard and namespace.
 */
export function passedSql(schema: string, no: number): string {
  return `
select exists (select 1 from ${schema}.shard) and not exists (
  select 1 from (${namespacesIn(schema, no)}) n where not exists (select 1 from ${schema}.shard d where d.shard / ${SHARDS} = n.no)
) and not exists (
  select 1 from ${schema}.shard d
   cross join lateral (select max(e.seq) as seq from ${schema}.event e where e.segment = ${no} and e.shard = d.shard) l
   where l.seq > coalesce((select max(a.cursor) from ${schema}.ack a where a.destination = d.destination and a.shard = d.shard), 0)
) as passed`
}

/** What is stored against what each destination has counted, shard by shard, and the sum. */
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

/** Of ordered aggregates: all but the last event, as far as their events are dropped. */
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

/** Held events outlive their segment, under the table's lock: nobody can hold another one meanwhile. */
export function keepHeldSql(schema: string, no: number): string {
  return `
insert into ${schema}.event (seq, shard, id, aggregatetype, aggregateid, type, payload, headers, created_at, segment)
select e.seq, e.shard, e.id, e.aggregatetype, e.aggregateid, e.type, e.payload, e.headers, e.created_at, 0
  from (select distinct h.shard, h.seq from ${schema}.held h) h
  join ${schema}.event_${no} e on e.shard = h.shard and e.seq = h.seq`
}

/**
 * Of events that outlived their segment: those that nobody holds any more, with their rows of `delayed`. Waits for
 * nobody who asks to cancel one. $1 limit
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
 * The newest cursor of each shard, and the newest count of each segment that is not counted yet, go into the segment
 * that is written now. Under the table's lock.
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

/** Everybody waits for this one, so it waits for nobody: the lock timeout is short. */
export function lockTableSql(schema: string, table: SegmentTable): string {
  return `lock table ${schema}.${table} in access exclusive mode`
}

/** Quick: the files go afterwards, when nobody can be waiting for them. */
export function detachSegmentSql(schema: string, table: SegmentTable, no: number): string {
  return `alter table ${schema}.${table} detach partition ${schema}.${table}_${no}`
}

export function dropSegmentSql(schema: string, table: SegmentTable, no: number): string {
  return `drop table if exists ${schema}.${table}_${no}`
}
