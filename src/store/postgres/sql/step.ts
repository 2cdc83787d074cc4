import { stillHeldSql } from './complete.ts'
import { IS_UNKNOWN } from './lease.ts'
import { MAY_BE_ENDED } from './operation.ts'

/**
 * Every write of a step locks the record's row by token (`for share`) in the same statement. A plain `exists` would not
 * see an uncommitted takeover, so a fenced attempt could still record its step.
 */

/** $1 id, $2 life */
export function stepsSql(schema: string): string {
  return `
select s.name, s.state::int4 as state, s.result from ${schema}.step s
 where s.id = $1::text::uuid and s.life = $2::text::bigint`
}

/**
 * The steps of one name, with their undos, ordered by operation and life. The primary key gives the order, and holds
 * every column of the condition except the namespace. There is no index by time: if few steps match, PostgreSQL may read
 * both tables for a page instead. The sizes are summed first, so that only the results of this answer are read.
 * $1 namespace (null: any), $2 name, $3 name of the undo, $4 since, $5 until, $6 after id, $7 after life, $8 limit, $9
 * bytes
 */
export function findStepsSql(schema: string): string {
  return `
with w as materialized (
  select n.*, sum(n.size) over (order by n.id, n.life) - n.size as before
    from (select s.id, s.life, r.route, r.label, coalesce(octet_length(s.result), 0) as size
            from ${schema}.step s join ${schema}.record r on r.id = s.id
           where (s.id, s.life) > ($6::text::uuid, $7::text::bigint) and s.name = $2::text
             and s.life >= $4::text::bigint and s.life < $5::text::bigint
             and ($1::text is null or r.namespace is null or r.namespace = $1::text)
           order by s.id, s.life limit $8::int4) n
)
select w.id::text as id, w.life::text as life, w.route, w.label, s.state::int4 as state, s.result, u.result as undone
  from w join ${schema}.step s on s.id = w.id and s.life = w.life and s.name = $2::text
         left join ${schema}.step u on u.id = w.id and u.life = w.life and u.name = $3::text
 where w.before < $9::float8 order by w.id, w.life`
}

/**
 * Records the intent of a call without a key, before the call. A recorded result stays. No row: the attempt is fenced.
 * $1 id, $2 token, $3 life, $4 name
 */
export function startStepSql(schema: string): string {
  return `
with r as materialized (${ownedSql(schema)})
insert into ${schema}.step as s (id, life, name, state)
select $1::text::uuid, $3::text::bigint, $4::text, 1 from r
on conflict (id, life, name) do update set state = s.state
returning true as done`
}

/** Records the result. No row: the attempt is fenced. $1 id, $2 token, $3 life, $4 name, $5 result */
export function finishStepSql(schema: string): string {
  return `
with r as materialized (${ownedSql(schema)})
insert into ${schema}.step (id, life, name, state, result)
select $1::text::uuid, $3::text::bigint, $4::text, 2, $5::text from r
on conflict (id, life, name) do update set state = 2, result = excluded.result
returning true as done`
}

/**
 * Records the result in the transaction of the step's own rows. Raises an error if the attempt is fenced. Parameters as
 * above, $6 opening xid
 */
export function completeStepSql(schema: string): string {
  return `
with r as materialized (${ownedSql(schema)}), s as (
  insert into ${schema}.step (id, life, name, state, result)
  select $1::text::uuid, $3::text::bigint, $4::text, 2, $5::text from r
  on conflict (id, life, name) do update set state = 2, result = excluded.result
)
select ${stillHeldSql(schema, '$6', 'r')} as done`
}

/**
 * Records an operator's verdict on an unknown operation: the step is done with this result ($3), or must be made again
 * ($3 null). The lease stays lapsed, so the next attempt takes over. The token rises, so a paused holder is fenced. No
 * row: the operation is not unknown, or no longer.
 * $1 id, $2 step name, $3 result, $4 replay ms, $5 gone ms
 */
export function settleStepSql(schema: string): string {
  return `
with r as (
  update ${schema}.record r set state = 1, lease_until = clock_timestamp(),
         token = greatest(r.token + 1, (extract(epoch from clock_timestamp()) * 1000000)::bigint),
         expires_at = greatest(r.expires_at, clock_timestamp() + $4::float8 * interval '1 millisecond'),
         forget_at = greatest(r.forget_at, clock_timestamp() + ($4::float8 + $5::float8) * interval '1 millisecond')
   where r.id = $1::text::uuid and ${IS_UNKNOWN} returning r.id, r.life
), s as (
  insert into ${schema}.step (id, life, name, state, result)
  select r.id, r.life, $2::text, 2, $3::text from r where $3::text is not null
  on conflict (id, life, name) do update set state = 2, result = excluded.result
), d as (
  delete from ${schema}.step t using r where $3::text is null and t.id = r.id and t.life = r.life and t.name = $2::text
)
select true as done from r`
}

/**
 * Records an operator's verdict: the operation has failed for good. $1 id, $2 status, $3 headers, $4 body, $5 kept, $6
 * replay ms, $7 gone ms
 */
export function settleFailedSql(schema: string): string {
  return `
with u as (
  update ${schema}.record r
     set state = 2, lease_until = null, expires_at = clock_timestamp() + $6::float8 * interval '1 millisecond',
         forget_at = clock_timestamp() + ($6::float8 + $7::float8) * interval '1 millisecond'
   where r.id = $1::text::uuid and ${MAY_BE_ENDED}
  returning r.id, r.token, (r.expires_at at time zone 'utc')::date as day
), a as (
  insert into ${schema}.answer (id, day, token, status, headers, body, kept)
  select u.id, u.day, u.token, $2::int4, $3::text, decode($4::text, 'base64'), $5::bool from u
), d as (
  delete from ${schema}.recover c using u where c.id = u.id
), k as (
  delete from ${schema}.chunk k using u where k.id = u.id
)
select true as done from u`
}

/** Locks the record's row, if this attempt holds it. $1 id, $2 token */
export function ownedSql(schema: string): string {
  return `select 1 from ${schema}.record where id = $1::text::uuid and token = $2::text::bigint and state = 1 for share`
}
