import { lockIn } from './lock.ts'

/** One stored answer. The day limits the read to one partition when the executor starts. $1 id, $2 day, $3 token */
export function readAnswerSql(schema: string): string {
  return `
select a.status::int4 as status, a.headers, encode(a.body, 'base64') as body, a.kept
  from ${schema}.answer a
 where a.id = $1::text::uuid and a.day = $2::text::date and a.token = $3::text::bigint`
}

/**
 * Stores a final refusal: claim and answer in one statement that commits by itself, after the effect has rolled back.
 * Locks: the same as the claim. If the claim is lost, the caller gets the existing record.
 * $1 fingerprint lock, $2 identity lock, $3 id, $4 scope, $5 fp, $6 fp version, $7 replay ms, $8 gone ms,
 * $9 status, $10 headers, $11 body (base64), $12 kept
 */
export function refuseSql(schema: string, recordColumns: string): string {
  return `
with f as materialized (
  select pg_try_advisory_xact_lock(${lockIn(schema, '$1::text::bigint')}) as ok, clock_timestamp() as at
), l as materialized (
  select ok, at, case when ok then pg_try_advisory_xact_lock(${lockIn(schema, '$2::text::bigint')}) else false end as won from f
), i as (
  insert into ${schema}.record as o (id, scope, fp, fp_version, state, attempt, token, life, expires_at, forget_at)
  select $3::text::uuid, $4::text::uuid, $5::text::uuid, $6::int4, 2, 1, t.us, t.us,
         l.at + $7::float8 * interval '1 millisecond', l.at + ($7::float8 + $8::float8) * interval '1 millisecond'
    from l, lateral (select (extract(epoch from l.at) * 1000000)::bigint as us) t
   where l.won
  on conflict (id) do update
     set fp = excluded.fp, fp_version = excluded.fp_version, attempt = 1, token = greatest(o.token + 1, excluded.token),
         life = greatest(o.token + 1, excluded.token), expires_at = excluded.expires_at, forget_at = excluded.forget_at
   where o.state = 2 and o.forget_at <= clock_timestamp()
  returning o.token as token, (o.expires_at at time zone 'utc')::date as day
), a as (
  insert into ${schema}.answer (id, day, token, status, headers, body, kept)
  select $3::text::uuid, i.day, i.token, $9::int4, $10::text, decode($11::text, 'base64'), $12::bool from i
)
select l.ok, l.won, i.token::text as new_token, i.day::text as new_day, ${recordColumns}
  from l left join i on true left join ${schema}.record r on r.id = $3::text::uuid`
}
