import { ANSWERS_LOOKED_THROUGH_BYTES } from '../../../limits.ts'
import { IN_PART } from './sweep.ts'

/**
 * Removes forgotten records of one part, with their steps and inputs. Locks only the rows it removes, and skips locked
 * ones. Only completed records are removed, never one in progress or unknown.
 * $1 first tid, $2 tid past the end, $3 limit
 */
export function sweepRecordsSql(schema: string): string {
  return `
with doomed as materialized (
  select r.ctid from ${schema}.record r
   where ${IN_PART} and r.state = 2 and r.forget_at <= clock_timestamp()
   limit $3::int4 for update skip locked
), gone as (
  delete from ${schema}.record r using doomed where r.ctid = doomed.ctid returning r.id
), s as (
  delete from ${schema}.step s using gone where s.id = gone.id
), c as (
  delete from ${schema}.recover c using gone where c.id = gone.id
), k as (
  delete from ${schema}.chunk k using gone where k.id = gone.id
)
select count(*)::int4 as rows from gone`
}

/**
 * Marks expired operations with a lapsed lease as unknown. No attempt may take them over any more, so an operator must
 * look. $1 limit
 */
export function suspendLapsedSql(schema: string): string {
  return `
with u as (
  update ${schema}.record r set state = 3
   where r.id in (select id from ${schema}.record where state = 1 and expires_at <= clock_timestamp() and lease_until <= clock_timestamp()
                   limit $1::int4 for update skip locked)
     and r.state = 1 returning 1
)
select count(*)::int4 as rows from u`
}

/**
 * Removes expired answers of days that have no partition. The order of the index prevents a scan of the whole table,
 * whatever the planner estimates. $1 limit
 */
export function sweepStraysSql(schema: string): string {
  return `
with gone as (
  delete from ${schema}.answer_default a
   where a.ctid in (select d.ctid from ${schema}.answer_default d where d.day < ${TODAY} order by d.day limit $1::int4)
  returning 1
)
select count(*)::int4 as strays from gone`
}

/** Today in UTC, by the database's clock. */
const TODAY = `(clock_timestamp() at time zone 'utc')::date`

export interface Day {
  readonly suffix: string
  readonly day: string
  readonly next: string
}

/**
 * The coming days without a partition. Attaching a partition scans the default partition under a lock. So the default
 * partition must be small, and the index must show no answer of that day in it.
 * $1 how many days, $2 up to which answers expire
 */
export function missingDaysSql(schema: string): string {
  return `
select to_char(d.at, 'YYYYMMDD') as suffix, d.at::text as day, (d.at + 1)::text as next, d.at <= ${TODAY} + $2::int4 as near,
       pg_relation_size('${schema}.answer_default') <= ${ANSWERS_LOOKED_THROUGH_BYTES}
         and (select min(a.day) from ${schema}.answer_default a where a.day >= d.at and a.day < d.at + 1) is null as free
  from (select ${TODAY} + n as at from generate_series(0, $1::int4) n) d
 where to_regclass('${schema}.answer_' || to_char(d.at, 'YYYYMMDD')) is null
 order by d.at`
}

/**
 * Blocks writers of answers, but not readers. Otherwise the default partition would refuse an answer whose insert had
 * already begun.
 */
export function attachPartitionSql(schema: string, { suffix, day, next }: Day): readonly string[] {
  return [
    `create table ${schema}.answer_${suffix} (like ${schema}.answer including defaults)`,
    `lock table only ${schema}.answer in share row exclusive mode`,
    `alter table ${schema}.answer attach partition ${schema}.answer_${suffix} for values from ('${day}') to ('${next}')`,
  ]
}

/** The partitions whose day is over, and for how many days. */
export function pastPartitionsSql(schema: string): string {
  return `
select p.name, ${TODAY} - p.day as days
  from (select c.relname::text as name, to_date(right(c.relname, 8), 'YYYYMMDD') as day
          from pg_inherits h join pg_class c on c.oid = h.inhrelid
         where h.inhparent = '${schema}.answer'::regclass and c.relname ~ '^answer_[0-9]{8}$') p
 where p.day < ${TODAY} order by 1`
}

export function dropPartitionSql(schema: string, name: string): string {
  return `drop table if exists ${schema}.${name}`
}

/** Retention DDL never queues behind a long transaction, because everything else would queue behind it. $1 ms */
export const LOCK_TIMEOUT_SQL: string = `select set_config('lock_timeout', $1::text, true) as lock_timeout`
