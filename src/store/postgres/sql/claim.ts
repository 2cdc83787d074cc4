import { RECORD_COLUMNS } from './record-columns.ts'

/**
 * Claims in the open transaction, without ever waiting.
 * Locks: two advisory try-locks until the end of the transaction (identity+fingerprint, then identity).
 * Uniqueness rests on the primary key; the locks only make refusals quick and exact.
 * Its snapshot is older than its locks: 'won, but no record' must be read once more before anybody is refused.
 * The record is born completed; uncommitted means in progress. It is never updated in atomic mode.
 * $1 fingerprint lock, $2 identity lock, $3 id, $4 scope, $5 fp, $6 fp version, $7 replay ms, $8 gone ms, $9 deadline ms (0: leave it)
 */
export function claimSql(schema: string): string {
  return `
with f as materialized (
  select pg_try_advisory_xact_lock($1::text::bigint) as ok, ${deadlineExpression('$9')} as deadline, clock_timestamp() as at
), l as materialized (
  select ok, at, case when ok then pg_try_advisory_xact_lock($2::text::bigint) else false end as won from f
), i as (
  insert into ${schema}.record (id, scope, fp, fp_version, state, attempt, token, life, expires_at, forget_at)
  select $3::text::uuid, $4::text::uuid, $5::text::uuid, $6::int4, 2, 1, t.us, t.us,
         l.at + $7::float8 * interval '1 millisecond', l.at + ($7::float8 + $8::float8) * interval '1 millisecond'
    from l, lateral (select (extract(epoch from l.at) * 1000000)::bigint as us) t
   where l.won
  on conflict (id) do nothing
  returning token::text as token, (expires_at at time zone 'utc')::date::text as day, pg_current_xact_id()::text as xid
)
select l.ok, l.won, i.token as new_token, i.day as new_day, i.xid, ${RECORD_COLUMNS}
  from l left join i on true left join ${schema}.record r on r.id = $3::text::uuid`
}

/**
 * The server ends the transaction at the deadline, whatever happens to the process. From version 17 on one setting does
 * it; before that, one for the time between statements and one for each statement.
 */
export function deadlineExpression(ms: string): string {
  return `case when ${ms}::text = '0' then null when current_setting('server_version_num')::int4 >= 170000
    then set_config('transaction_timeout', ${ms}::text, true)
    else set_config('idle_in_transaction_session_timeout', ${ms}::text, true) || set_config('statement_timeout', ${ms}::text, true) end`
}

/** The deadline alone, for transactions that open without a claim. $1 deadline ms */
export const DEADLINE_SQL: string = `select ${deadlineExpression('$1')} as deadline`

/** The record alone, in a new snapshot. $1 id */
export function readRecordSql(schema: string): string {
  return `select ${RECORD_COLUMNS} from ${schema}.record r where r.id = $1::text::uuid`
}

/**
 * Gives an expired record a new life in the open transaction, or takes a lapsed leased one over that has no step yet.
 * Locks: the record's row. Returns no row when it changed since it was seen.
 * $1 id, $2 seen token, $3 fp, $4 fp version, $5 replay ms, $6 gone ms
 */
export function renewSql(schema: string): string {
  return `
update ${schema}.record r
   set fp = $3::text::uuid, fp_version = $4::int4, state = 2, attempt = 1, lease_until = null,
       token = greatest(r.token + 1, (extract(epoch from clock_timestamp()) * 1000000)::bigint),
       life = greatest(r.token + 1, (extract(epoch from clock_timestamp()) * 1000000)::bigint),
       expires_at = clock_timestamp() + $5::float8 * interval '1 millisecond',
       forget_at = clock_timestamp() + ($5::float8 + $6::float8) * interval '1 millisecond'
 where r.id = $1::text::uuid and r.token = $2::text::bigint
   and (r.state = 2 and r.expires_at <= clock_timestamp()
        or r.state = 1 and r.lease_until <= clock_timestamp() and r.expires_at > clock_timestamp()
           and not exists (select 1 from ${schema}.step s where s.id = r.id))
returning r.token::text as new_token, r.life::text as new_life, (r.expires_at at time zone 'utc')::date::text as new_day, pg_current_xact_id()::text as xid`
}
