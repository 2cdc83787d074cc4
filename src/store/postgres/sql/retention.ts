import { ANSWERS_LOOKED_THROUGH_BYTES } from '../../../limits.ts'
import { IN_PART } from './sweep.ts'

/**
 * Removes forgotten records of one part, with what belongs to them. Locks only the rows it removes, skipping locked
 * ones. Only completed records: one in progress or unknown never goes.
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
)
select count(*)::int4 as rows from gone`
}

/** In progress past its time, with a lapsed lease: nobody may take it over any more, an operator must look. */
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
 * Past answers of days that have no partition. In the order of the index: whatever the planner believes of the table, it
 * is not looked through. $1 limit
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

/** UTC, by the database's calendar. */
const TODAY = `(clock_timestamp() at time zone 'utc')::date`

export interface Day {
  readonly suffix: string
  readonly day: string
  readonly next: string
}

/**
 * The coming days without a partition. Attaching one looks through the default partition while nobody can use that: so it
 * must be small, and have no answer of that day, which the index knows.
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
 * Locks out who writes answers, not who reads them: whoever was on the way into the default partition would be refused by
 * it afterwards.
 */
export function attachPartitionSql(schema: string, { suffix, day, next }: Day): readonly string[] {
  return [
    `create table ${schema}.answer_${suffix} (like ${schema}.answer including defaults)`,
    `lock table only ${schema}.answer in share row exclusive mode`,
    `alter table ${schema}.answer attach partition ${schema}.answer_${suffix} for values from ('${day}') to ('${next}')`,
  ]
}

/** The partitions that are past their day, and by how many days. */
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
