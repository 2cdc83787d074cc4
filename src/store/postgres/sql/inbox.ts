import { deadlineExpression } from './claim-function.ts'
import { lockIn } from './lock.ts'

/** The consumer's statements. A state is sent as its index in INBOX_STATES: 0 taken … 5 busy. */

/**
 * Takes the messages that may run, and sets the transaction's deadline. It never waits: a message that runs elsewhere
 * holds its lock, so the insert conflicts only with committed rows. Locks: one advisory try-lock per message until the
 * end.
 * $1 consumer, $2 redrive, $3 deadline ms, items from $4
 */
export function takeSql(schema: string): string {
  return `
with v as materialized (
  select * from ${itemRows(4)}
), s as materialized (
  select v.*, case ${obstacles(schema, 'not $2::bool')}
    when pg_try_advisory_xact_lock(${lockIn(schema, 'v.lock')}) then 0 else 5 end as state
    from v
), i as (
  insert into ${schema}.inbox (consumer, source, message, id)
  select $1::text, s.source, s.message, s.id from s where s.state = 0
  on conflict do nothing returning id
)
select (select string_agg(case when s.state = 0 and i.id is null then '1' else s.state::text end, ',' order by s.n)
          from s left join i on i.id = s.id) as states,
       pg_current_xact_id()::text as xid,
       ${deadlineExpression('$3::text')} as deadline`
}

/** Returns the same states without taking a message. $1 consumer, $2 redrive, items from $3 */
export function lookSql(schema: string): string {
  return `
select string_agg(case when exists (select 1 from ${schema}.inbox i where i.id = v.id) then '1'
    else (case ${obstacles(schema, 'not $2::bool')} else 0 end)::text end, ',' order by v.n) as states
  from ${itemRows(3)}`
}

/**
 * Tries the locks of messages, and returns the ids of those that run elsewhere. This must be a separate statement:
 * under READ COMMITTED, only the next statement sees everything that was committed before the locks were taken.
 * $1 deadline ms, $2 ids, $3 locks
 */
export function lockSql(schema: string): string {
  return `
with v as materialized (
  select v.id, pg_try_advisory_xact_lock(${lockIn(schema, 'v.lock')}) as had from unnest($2::text::uuid[], $3::text::int8[]) v(id, lock)
)
select coalesce(string_agg(v.id::text, ',') filter (where not v.had), '') as busy, ${deadlineExpression('$1::text')} as deadline
  from v`
}

/** The same for one message, in a transaction that other code ends. $1 lock */
export function enterLockSql(schema: string): string {
  return `select pg_try_advisory_xact_lock(${lockIn(schema, '$1::text::int8')}) as had`
}

/**
 * Takes one message in a transaction that other code ends. It tries the lock again, because an insert without the lock
 * would wait for the holder. $1 consumer, $2 redrive, items from $3
 */
export function enterSql(schema: string): string {
  return `
insert into ${schema}.inbox (consumer, source, message, id)
select $1::text, v.source, v.message, v.id from ${itemRows(3)}
 where pg_try_advisory_xact_lock(${lockIn(schema, 'v.lock')}) and not exists (select 1 from ${schema}.mark m where m.id = v.id)
   and ($2::bool or not exists (select 1 from ${schema}.dead_letter d where d.id = v.id and d.state <> 3))
on conflict do nothing returning true as entered`
}

/** Id, lock, source, message, aggregate and predecessor of each message, in order. */
function itemRows(first: number): string {
  const p = (n: number): string => `$${first + n}::text`
  return `unnest(${p(0)}::uuid[], ${p(1)}::int8[], ${p(2)}::text[], ${p(3)}::text[], ${p(4)}::text[], ${p(5)}::uuid[])
         with ordinality as v(id, lock, source, message, aggregate, previous, n)`
}

/** Why a message cannot run. `held`: whether dead letters count. */
function obstacles(schema: string, held: string): string {
  const letter = `${schema}.dead_letter d`
  const applied = `exists (select 1 from ${schema}.inbox a where a.id = v.id)`
  return `when exists (select 1 from ${schema}.mark m where m.id = v.id) then 1
    when ${held} and exists (select 1 from ${letter} where d.id = v.id and d.state <> 3) then 2
    when ${held} and v.aggregate is not null and exists (
      select 1 from ${letter} where d.consumer = $1::text and d.source = v.source and d.aggregate = v.aggregate and d.state = 1)
      then case when ${applied} then 1 else 3 end
    when v.previous is not null
      and not exists (select 1 from ${schema}.inbox p where p.id = v.previous)
      and not exists (select 1 from ${schema}.mark p where p.id = v.previous)
      and not ${isSettledFor(schema, 'v.previous')}
      then case when ${applied} then 1 else 4 end`
}

/**
 * Whether successors may pass a message that was not applied. They may if it was skipped. They may also if it was
 * discarded, together with everything before it. That chain must reach back to a message that was applied or skipped,
 * to the first of the aggregate, or to one that never came.
 */
function isSettledFor(schema: string, id: string): string {
  const of = (table: string, alias: string): string => `select 1 from ${schema}.${table} ${alias} where ${alias}.id`
  return `exists (
        with recursive chain(id) as (
          select ${id} union
          select d.previous from chain c join ${schema}.dead_letter d on d.id = c.id and d.state = 4 and d.previous is not null
        )
        select 1 from chain c
         where exists (${of('inbox', 'a')} = c.id) or exists (${of('mark', 'm')} = c.id)
            or exists (${of('dead_letter', 'd')} = c.id and (d.state = 2 or d.state = 4
              and (d.previous is null or d.reason = 'orphaned' and not exists (${of('dead_letter', 'o')} = d.previous)))))`
}

/**
 * True, or an error. The claiming transaction must still be open. And no taken message may have been parked between
 * the snapshot of `take` and its locks. With the locks taken, no other process can park it.
 * $1 xid, $2 taken messages that are not part of a redrive
 */
export function doneSql(schema: string): string {
  return `select ${stillOurs(schema)} as done`
}

/**
 * The same check, with everything else that commits with the effect. Locks the rows it changes.
 * $1 xid, $2 taken messages that are not part of a redrive, $3 attempts to forget, positions from $4
 */
export function doneBesideSql(schema: string): string {
  return `
with t as (
  delete from ${schema}.attempt where id = any($3::text::uuid[])
), p as (
  ${passPositions(schema, 4)}
)
select ${stillOurs(schema)} as done`
}

function stillOurs(schema: string): string {
  return `case when pg_current_xact_id()::text <> $1::text then ${schema}.fail('EO002')
    when exists (select 1 from ${schema}.dead_letter d where d.id = any($2::text::uuid[]) and d.state <> 3) then ${schema}.fail('EO004')
    else true end`
}

/**
 * A position never goes back. It does not advance either if the database, after a failover, lacks what the consumer has
 * committed.
 * $first consumer, source, partitions, positions, from, witnesses (for each position: ids, separated by commas)
 */
export function passPositions(schema: string, first: number): string {
  const p = (n: number): string => `$${first + n}::text`
  return `insert into ${schema}.position (consumer, source, partition, next)
  select ${p(0)}, ${p(1)}, v.partition, v.next
    from unnest(${p(2)}::text[], ${p(3)}::int8[], ${p(4)}::int8[], ${p(5)}::text[]) v(partition, next, came_from, witnesses)
   where (v.came_from is null or v.came_from <= (
     select o.next from ${schema}.position o where o.consumer = ${p(0)} and o.source = ${p(1)} and o.partition = v.partition))
     and (v.witnesses = '' or not exists (
       select 1 from unnest(string_to_array(v.witnesses, ',')::uuid[]) w(id)
        where ${['inbox', 'mark', 'dead_letter'].map((table) => `not exists (select 1 from ${schema}.${table} x where x.id = w.id)`).join(' and ')}))
   order by 3
  on conflict (consumer, source, partition) do update set next = greatest(position.next, excluded.next)`
}

/** $1 consumer, $2 source */
export function positionsSql(schema: string): string {
  return `select partition, next::text as next from ${schema}.position where consumer = $1::text and source = $2::text`
}

/** $1 ids */
export function triesSql(schema: string): string {
  return `
select a.id::text as id, a.attempts, a.unfinished, a.timeline::text as timeline
  from ${schema}.attempt a where a.id = any($1::text::uuid[])`
}

/** Counts attempts before the handlers run. Locks the rows in a fixed order. $1 consumer, $2 ids */
export function tryingSql(schema: string): string {
  return `
insert into ${schema}.attempt as a (consumer, id, attempts, unfinished)
select $1::text, v.id, 1, 1 from (select distinct unnest($2::text::uuid[]) as id order by 1) v
on conflict (id) do update set attempts = a.attempts + 1, unfinished = a.unfinished + 1, updated_at = clock_timestamp()
returning a.id::text as id, a.attempts, (a.unfinished - 1)::int4 as unfinished, a.timeline::text as timeline`
}

/** Takes back attempts that did not begin. Locks the rows in a fixed order. $1 ids */
export function untrySql(schema: string): string {
  return `
with v as materialized (
  select a.id, a.attempts <= 1 and a.timeline = '[]' as only from ${schema}.attempt a
   where a.id = any($1::text::uuid[]) order by a.id for update
), gone as (
  delete from ${schema}.attempt a using v where a.id = v.id and v.only
)
update ${schema}.attempt a set attempts = greatest(a.attempts - 1, 0), unfinished = greatest(a.unfinished - 1, 0)
  from v where a.id = v.id and not v.only`
}

/**
 * Records failures. A long timeline keeps its first and its latest entries. $1 consumer, $2 ids, $3 counted, $4 errors,
 * $5 fingerprints
 */
export function failedSql(schema: string): string {
  return `
insert into ${schema}.attempt as a (consumer, id, attempts, unfinished, timeline)
select $1::text, v.id, case when v.counted then 0 else 1 end, 0,
       jsonb_build_array(jsonb_build_object('at', floor(extract(epoch from clock_timestamp()) * 1000)::int8, 'error', v.error, 'fingerprint', v.fingerprint))
  from unnest($2::text::uuid[], $3::text::bool[], $4::text::text[], $5::text::text[]) v(id, counted, error, fingerprint) order by v.id
on conflict (id) do update set attempts = a.attempts + excluded.attempts, unfinished = 0, updated_at = clock_timestamp(),
  timeline = case when jsonb_array_length(a.timeline) >= 50 then a.timeline - 1 else a.timeline end || excluded.timeline
returning a.id::text as id, greatest(a.attempts, 1)::int4 as attempts, a.unfinished, a.timeline::text as timeline`
}

/** $1 name, $2 inbox ms, $3 remember ms, $4 letters ms */
export function openConsumerSql(schema: string): string {
  return `
insert into ${schema}.consumer (name, inbox_ms, remember_ms, letters_ms) values ($1::text, $2::float8, $3::float8, $4::float8)
on conflict (name) do update set inbox_ms = excluded.inbox_ms, remember_ms = excluded.remember_ms,
  letters_ms = excluded.letters_ms, seen_at = clock_timestamp()`
}
