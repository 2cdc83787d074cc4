import { deadlineExpression } from './claim-function.ts'
import { eventsSql, stillClaimedSql } from './complete.ts'
import type { Into } from './complete.ts'
import { lockIn } from './lock.ts'

/**
 * Claims many requests in one statement, and sets the deadline. The caller sorts them by identity, with one request per
 * identity. Each request takes two try-locks before the insert. Without the identity lock, one key that runs elsewhere
 * would make the whole batch wait. Without the fingerprint lock, the same request elsewhere would count as a different
 * request.
 * $1 ids, $2 scopes, $3 fps, $4 locks, $5 fp version, $6 replay ms, $7 gone ms, $8 deadline ms,
 * $9 rerun, $10 fingerprint locks
 */
export function batchClaimSql(schema: string): string {
  return `
with d as materialized (
  select ${deadlineExpression('$8::text')} as deadline, clock_timestamp() as at
)
insert into ${schema}.record as o (id, scope, fp, fp_version, state, attempt, token, life, expires_at, forget_at)
select v.id, v.scope, v.fp, $5::int4, 2, 1, t.us, t.us,
       t.at + $6::float8 * interval '1 millisecond', t.at + ($6::float8 + $7::float8) * interval '1 millisecond'
  from unnest($1::text::uuid[], $2::text::uuid[], $3::text::uuid[], $4::text::bigint[], $10::text::bigint[])
         as v(id, scope, fp, lock, fp_lock),
       (select d.at, (extract(epoch from d.at) * 1000000)::bigint as us from d) t
 where case when pg_try_advisory_xact_lock(${lockIn(schema, 'v.fp_lock')}) then pg_try_advisory_xact_lock(${lockIn(schema, 'v.lock')}) end
on conflict (id) do update
   set fp = excluded.fp, fp_version = excluded.fp_version, attempt = 1, token = greatest(o.token + 1, excluded.token),
       life = greatest(o.token + 1, excluded.token), expires_at = excluded.expires_at, forget_at = excluded.forget_at
 where o.state = 2 and (o.forget_at <= clock_timestamp() or $9::bool and o.expires_at <= clock_timestamp())
returning o.id::text as id, o.token::text as new_token, (o.expires_at at time zone 'utc')::date::text as new_day, pg_current_xact_id()::text as xid`
}

/**
 * Writes the answers and events of a whole batch. Locks: the shards' advisory locks, ascending, before the first
 * \`seq\`.
 * $1 ids, $2 days, $3 tokens, $4 statuses, $5 headers, $6 bodies (base64), $7 kept, $8 claiming xid, events from $9
 */
export function batchCompleteSql(schema: string, into: Into): string {
  return `
with ${eventsSql(schema, 9, '', into)}, a as (
  insert into ${schema}.answer (id, day, token, status, headers, body, kept)
  select v.id, v.day, v.token, v.status, v.headers, decode(v.body, 'base64'), v.kept
    from unnest($1::text::uuid[], $2::text::date[], $3::text::bigint[], $4::text::int4[], $5::text::text[], $6::text::text[], $7::text::bool[])
         as v(id, day, token, status, headers, body, kept)
)
select ${stillClaimedSql(schema)} as done`
}
