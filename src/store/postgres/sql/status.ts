import { SHARDS } from '../../../limits.ts'
import { COUNTED_MAX } from '../../status.ts'
import { STATE } from './operation.ts'

/** How many events of a shard are counted at most. */
const SHARD_EVENTS = 200

/** Index: record_open. $1 namespace */
export function operationsStatusSql(schema: string): string {
  return `
select (count(*) filter (where s = 'running'))::int4 as running, (count(*) filter (where s = 'abandoned'))::int4 as abandoned,
       (count(*) filter (where s = 'unknown'))::int4 as unknown,
       (extract(epoch from clock_timestamp() - min(lease_until) filter (where s = 'abandoned')) * 1000)::float8 as oldest_ms
  from (select ${STATE} as s, r.lease_until from ${schema}.record r
         where r.state <> 2 and (r.namespace is null or r.namespace = $1::text) limit ${COUNTED_MAX}) o`
}

/** Indexes: event_shard_seq, held's and ack's primary keys. $1 number of the namespace */
export function destinationsStatusSql(schema: string): string {
  return `
select d.destination as name, d.waiting, d.oldest_ms,
       (select count(*)::int4 from ${schema}.relay r where r.destination = d.destination and r.until > clock_timestamp()) as relays,
       (select (count(*) filter (where h.state = 3))::int4
          from (select state from ${schema}.held where destination = d.destination limit ${COUNTED_MAX}) h) as parked
  from (select s.destination, sum(w.n)::int4 as waiting, max(w.age)::float8 as oldest_ms from ${schema}.shard s
         cross join lateral (
           select count(*) as n, extract(epoch from clock_timestamp() - min(e.created_at)) * 1000 as age from (
             select created_at from ${schema}.event where shard = s.shard
                and seq > coalesce((select max(cursor) from ${schema}.ack a where a.destination = s.destination and a.shard = s.shard), 0)
              order by seq limit ${SHARD_EVENTS}) e) w
         where s.shard >= $1::int4 * ${SHARDS} and s.shard < ($1::int4 + 1) * ${SHARDS} group by s.destination) d
 order by d.destination`
}

/** $1 number of the namespace */
export function unsentStatusSql(schema: string): string {
  return `
select count(*)::int4 as events, (extract(epoch from clock_timestamp() - min(e.created_at)) * 1000)::float8 as oldest_ms
  from (select created_at from ${schema}.event where shard >= $1::int4 * ${SHARDS} and shard < ($1::int4 + 1) * ${SHARDS}
         limit ${COUNTED_MAX}) e`
}

/** An expression, so that only the status uses the index: a redrive's plan that chose it would be quadratic. */
const OWNER = `(d.consumer || '')`

/** Index: dead_letter_parked, in whose order letters are counted: settled ones are not looked through. Their stored names tell whose they are. */
export function consumersStatusSql(schema: string): string {
  return `
select k.name, (extract(epoch from clock_timestamp() - k.seen_at) * 1000)::float8 as seen_ms, k.remember_ms::float8 as remember_ms, l.letters,
       (select (extract(epoch from clock_timestamp() - d.parked_at) * 1000)::float8 from ${schema}.dead_letter d where d.seq = l.first) as oldest_ms
  from ${schema}.consumer k cross join lateral (
    select count(*)::int4 as letters, min(p.seq) as first from (
      select d.seq from ${schema}.dead_letter d where ${OWNER} = k.name and d.state = 1 order by ${OWNER}, d.seq limit ${COUNTED_MAX}) p) l
 order by k.name`
}

/** From the catalogue: nothing is counted. Partitions go with their table. $1 schema */
export function sizesStatusSql(schema: string): string {
  return `
select coalesce(p.relname, c.relname)::text as name, sum(greatest(c.reltuples, 0))::float8 as rows, bool_or(c.reltuples >= 0) as known,
       sum(pg_total_relation_size(c.oid))::float8 as bytes,
       (select (extract(epoch from clock_timestamp() - max(until)) * 1000)::float8 from ${schema}.sweeper) as swept_ms
  from pg_class c left join pg_inherits i on i.inhrelid = c.oid left join pg_class p on p.oid = i.inhparent
 where c.relnamespace = to_regnamespace($1::text) and c.relkind = 'r' group by 1 order by 1`
}

/** Migration 13: the oldest parked letter of a consumer, and how many there are, without looking through the others. */
export function statusIndexSql(schema: string): readonly string[] {
  return [
    `create index dead_letter_parked on ${schema}.dead_letter ((consumer || ''), seq) include (consumer) where state = 1`,
  ]
}
