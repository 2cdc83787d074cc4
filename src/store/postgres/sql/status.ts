import { SHARDS } from '../../../limits.ts'
import { COUNTED_MAX, TRIES_MAX } from '../../status.ts'
import { STATE } from './operation.ts'

/** At most this many events of a shard are counted. */
const SHARD_EVENTS = 200

/** How long ago, in milliseconds. */
const age = (at: string): string => `(extract(epoch from clock_timestamp() - ${at}) * 1000)::float8`

/** Index: record_open. A record without a namespace counts in every namespace. $1 namespace (null: all) */
export function operationsStatusSql(schema: string): string {
  return `
select count(*) filter (where s = 'running') as running, count(*) filter (where s = 'abandoned') as abandoned,
  count(*) filter (where s = 'unknown') as unknown,
  ${age(`min(lease_until) filter (where s = 'abandoned')`)} as oldest_abandoned_ms
  from (select ${STATE} as s, r.lease_until from ${schema}.record r
    where r.state <> 2 and (r.namespace = $1::text) is not false limit ${COUNTED_MAX}) o`
}

/** Indexes: event_shard_seq, held's and ack's primary keys. $1 number of the namespace */
export function destinationsStatusSql(schema: string): string {
  return `
select d.*, h.*, (select count(*) from ${schema}.relay r where r.destination = d.name and r.until > clock_timestamp()) as relays
  from (select s.destination as name, sum(w.n) as waiting, max(w.age) as oldest_ms from ${schema}.shard s
    cross join lateral (
      select count(*) as n, ${age('min(e.created_at)')} as age from (
        select created_at from ${schema}.event where shard = s.shard
          and seq > coalesce((select max(cursor) from ${schema}.ack a where a.destination = s.destination and a.shard = s.shard), 0)
        order by seq limit ${SHARD_EVENTS}) e) w
    where s.shard / ${SHARDS} = $1::int4 group by s.destination) d
  cross join lateral (
    select count(*) filter (where state = 3) as parked, count(error) as retrying, max(error) as error
    from (select state, case state when 1 then reason end as error from ${schema}.held where destination = d.name limit ${COUNTED_MAX}) h) h
  order by 1`
}

/** $1 number of the namespace */
export function unsentStatusSql(schema: string): string {
  return `
select count(*) as events, ${age('min(e.created_at)')} as oldest_ms
  from (select created_at from ${schema}.event where shard >= $1::int4 * ${SHARDS} and shard < ($1::int4 + 1) * ${SHARDS} limit ${COUNTED_MAX}) e`
}

/** An expression, so that only the status uses the index: a redrive's plan that chose it would be quadratic. */
const OWNER = `(d.consumer || '')`

/**
 * Index: dead_letter_parked. Letters are counted in its order, so settled letters are not scanned. A letter's stored
 * consumer name tells its owner.
 */
export function consumersStatusSql(schema: string): string {
  return `
select k.name, ${age('k.seen_at')} as seen_ago_ms, k.remember_ms, l.letters,
  (select ${age('d.parked_at')} from ${schema}.dead_letter d where d.seq = l.first) as oldest_letter_ms,
  coalesce(t.retrying, 0) as retrying, t.error
  from ${schema}.consumer k cross join lateral (
    select count(*) as letters, min(p.seq) as first from (
      select d.seq from ${schema}.dead_letter d where ${OWNER} = k.name and d.state = 1 order by ${OWNER}, d.seq limit ${COUNTED_MAX}) p) l
  left join (select name, count(error) as retrying, max(error) as error
    from (select consumer as name, timeline->-1->>'error' as error from ${schema}.attempt limit ${TRIES_MAX}) a group by 1) t using (name)
  order by 1`
}

/** Reads estimates from the catalogue, and counts nothing. Partitions are added to their table. $1 schema */
export function sizesStatusSql(schema: string): string {
  return `
select coalesce(p.relname, c.relname)::text as name, (sum(c.reltuples) filter (where c.reltuples >= 0))::float8 as rows,
  sum(pg_total_relation_size(c.oid))::float8 as bytes,
  (select ${age('max(until)')} from ${schema}.sweeper) as swept_ms
  from pg_class c left join pg_inherits i on i.inhrelid = c.oid left join pg_class p on p.oid = i.inhparent
  where c.relnamespace = to_regnamespace($1::text) and c.relkind = 'r' group by 1 order by 1`
}

/** Migration 13: finds and counts the parked letters of a consumer without scanning the others. */
export function statusIndexSql(schema: string): readonly string[] {
  return [
    `create index dead_letter_parked on ${schema}.dead_letter ((consumer || ''), seq) include (consumer) where state = 1`,
  ]
}
