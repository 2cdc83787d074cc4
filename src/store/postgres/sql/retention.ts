/** How many blocks the record table has: the sweeper walks it by address, so the hot path pays for no index. */
export function blocksSql(schema: string): string {
  return `select (pg_relation_size('${schema}.record') / current_setting('block_size')::int8)::int4 as blocks`
}

/**
 * Removes forgotten records of one range of blocks, with their steps. Locks only the rows it removes, skipping locked
 * ones. Only completed records: one in progress or unknown never goes.
 * $1 first tid, $2 tid past the end, $3 limit
 */
export function sweepRecordsSql(schema: string): string {
  return `
with doomed as materialized (
  select r.ctid from ${schema}.record r
   where r.ctid >= $1::text::tid and r.ctid < $2::text::tid and r.state = 2 and r.forget_at <= clock_timestamp()
   limit $3::int4 for update skip locked
), gone as (
  delete from ${schema}.record r using doomed where r.ctid = doomed.ctid returning r.id
), s as (
  delete from ${schema}.step s using gone where s.id = gone.id
)
select count(*)::int4 as records from gone`
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
select count(*)::int4 as suspended from u`
}

/** Answers whose day had no partition yet wait in the default one. $1 limit */
export function sweepStraysSql(schema: string): string {
  return `
with gone as (
  delete from ${schema}.answer_default a
   where a.ctid in (select ctid from ${schema}.answer_default where day < (clock_timestamp() at time zone 'utc')::date limit $1::int4)
  returning 1
)
select count(*)::int4 as strays from gone`
}

/** The partitions there are, and which of them are past their day (UTC, database time). */
export function partitionsSql(schema: string): string {
  return `
select c.relname as name, to_date(right(c.relname, 8), 'YYYYMMDD') < (clock_timestamp() at time zone 'utc')::date as past
  from pg_inherits h join pg_class c on c.oid = h.inhrelid
 where h.inhparent = '${schema}.answer'::regclass and c.relname ~ '^answer_[0-9]{8}$' order by 1`
}

/** The coming days by the database's calendar. $1 how many */
export const DAYS_SQL: string = `
select to_char(d, 'YYYYMMDD') as suffix, d::date::text as day, (d + interval '1 day')::date::text as next
  from generate_series((clock_timestamp() at time zone 'utc')::date::timestamp, (clock_timestamp() at time zone 'utc')::date + $1::int4 * interval '1 day', interval '1 day') d`

export function createPartitionSql(schema: string, day: { suffix: string; day: string; next: string }): string {
  return `create table if not exists ${schema}.answer_${day.suffix} partition of ${schema}.answer for values from ('${day.day}') to ('${day.next}')`
}

export function dropPartitionSql(schema: string, name: string): string {
  return `drop table if exists ${schema}.${name}`
}

/** Retention DDL never queues behind a long transaction, because everything else would queue behind it. $1 ms */
export const LOCK_TIMEOUT_SQL: string = `select set_config('lock_timeout', $1::text, true) as lock_timeout`
