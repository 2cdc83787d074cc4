import { IN_PART } from './sweep.ts'

/**
 * Inbox retention. A row first becomes a mark, and is deleted an hour later, because a statement with an older snapshot
 * sees only the row. Rows are found by their physical address, so the hot path needs no index.
 */

const ago = (column: string): string => `clock_timestamp() - ${column} * interval '1 millisecond'`

/**
 * Marks rows that are older than `inboxFor`, unless they are to be forgotten at once. $1 first tid, $2 tid past the
 * end, $3 limit
 */
export function markSql(schema: string): string {
  return `
with m as (
  insert into ${schema}.mark (id, forget_at)
  select r.id, r.at + c.remember_ms * interval '1 millisecond'
    from ${schema}.inbox r join ${schema}.consumer c on c.name = r.consumer
   where ${IN_PART} and r.at < ${ago('c.inbox_ms')} and c.remember_ms > c.inbox_ms
     and not exists (select 1 from ${schema}.mark x where x.id = r.id)
   limit $3::int4
  on conflict do nothing returning 1
)
select count(*)::int4 as rows from m`
}

/**
 * Removes rows whose mark is an hour old, and rows that no longer need to be remembered. Skips locked rows. Parameters
 * as above.
 */
export function unrowSql(schema: string): string {
  return `
with doomed as materialized (
  select r.ctid from ${schema}.inbox r join ${schema}.consumer c on c.name = r.consumer
    left join ${schema}.mark m on m.id = r.id
   where ${IN_PART} and r.at < ${ago('c.inbox_ms')}
     and (m.marked_at < clock_timestamp() - interval '1 hour' or r.at < ${ago('greatest(c.remember_ms, c.inbox_ms)')})
   limit $3::int4 for update of r skip locked
), gone as (
  delete from ${schema}.inbox r using doomed where r.ctid = doomed.ctid returning 1
)
select count(*)::int4 as rows from gone`
}

/** Parameters as above. */
export function forgetSql(schema: string): string {
  return `
with doomed as materialized (
  select r.ctid from ${schema}.mark r where ${IN_PART} and r.forget_at < clock_timestamp()
     and not exists (select 1 from ${schema}.inbox i where i.id = r.id)
   limit $3::int4 for update skip locked
), gone as (
  delete from ${schema}.mark r using doomed where r.ctid = doomed.ctid returning 1
)
select count(*)::int4 as rows from gone`
}

/**
 * Removes settled dead letters, and attempts of messages that never came again. A letter that was not applied stays
 * while its aggregate has a parked letter, because later messages look for it. $1 limit
 */
export function sweepLettersSql(schema: string): string {
  return `
with a as (
  delete from ${schema}.attempt where id in (
    select a.id from ${schema}.attempt a join ${schema}.consumer c on c.name = a.consumer
     where a.updated_at < ${ago('greatest(c.remember_ms, c.inbox_ms)')} limit $1::int4 for update of a skip locked)
), gone as (
  delete from ${schema}.dead_letter where id in (
    select d.id from ${schema}.dead_letter d join ${schema}.consumer c on c.name = d.consumer
     where d.state <> 1 and coalesce(d.settled_at, d.parked_at) < ${ago('c.letters_ms')}
       and (d.state = 3 or d.aggregate is null or not exists (select 1 from ${schema}.dead_letter p
         where p.consumer = d.consumer and p.source = d.source and p.aggregate = d.aggregate and p.state = 1))
     limit $1::int4 for update of d skip locked)
  returning 1
)
select count(*)::int4 as rows from gone`
}
