import { deadlineExpression } from './claim-function.ts'
import { lockIn } from './lock.ts'
import { RECORD_COLUMNS } from './record-columns.ts'

/**
 * Claims in the open transaction: see claim-function.ts. The casts through text let every client send its parameters in
 * the same way; prepared.ts removes them for clients that need none.
 * $1 fingerprint lock, $2 identity lock, $3 id, $4 scope, $5 fp, $6 fp version, $7 replay ms, $8 gone ms, $9 deadline
 * ms (0: none)
 */
export function claimSql(schema: string): string {
  return `select ${schema}.claim_atomic(${claimParameters(schema)}, $9::text) as view, pg_current_xact_id_if_assigned()::text as xid`
}

/**
 * Claims with a lease, and commits by itself. Locks: the two advisory try-locks, only during this statement.
 * Parameters as above, then $9 lease ms, $10 recover namespace, $11 recover name, $12 recover input, $13 namespace,
 * $14 route, $15 label
 */
export function leaseClaimSql(schema: string): string {
  return `select ${schema}.lease(${claimParameters(schema)}, $9::float8, $10::text, $11::text, $12::text, $13::text, $14::text, $15::text) as view`
}

function claimParameters(schema: string): string {
  const locks = ['$1', '$2'].map((lock) => lockIn(schema, `${lock}::text::bigint`)).join(', ')
  return `${locks}, $3::text::uuid, $4::text::uuid, $5::text::uuid, $6::int4, $7::float8, $8::float8`
}

/** For transactions that open without a claim. $1 deadline ms */
export const DEADLINE_SQL: string = `select ${deadlineExpression('$1::text')} as deadline, pg_current_xact_id()::text as xid,
  current_setting('transaction_read_only')::bool as read_only`

/** The record alone, in a new snapshot. $1 id */
export function readRecordSql(schema: string): string {
  return `select ${RECORD_COLUMNS} from ${schema}.record r where r.id = $1::text::uuid`
}

/**
 * Starts a new life of an expired record in the open transaction. Or takes over a leased record whose lease has lapsed,
 * if it has no step yet. Deletes the sealed input. Locks: the record's row. Returns no row if the record has changed
 * since it was read.
 * $1 id, $2 seen token, $3 fp, $4 fp version, $5 replay ms, $6 gone ms, $7 seen completed
 */
export function renewSql(schema: string): string {
  return `
with u as (
  update ${schema}.record r
     set fp = $3::text::uuid, fp_version = $4::int4, state = 2, attempt = 1, lease_until = null, namespace = null, route = null, label = null,
         token = greatest(r.token + 1, n.us),
         life = greatest(r.token + 1, n.us),
         expires_at = n.at + $5::float8 * interval '1 millisecond',
         forget_at = n.at + ($5::float8 + $6::float8) * interval '1 millisecond'
    from (select c.at, (extract(epoch from c.at) * 1000000)::bigint as us from (select clock_timestamp() as at) c) n
   where r.id = $1::text::uuid and r.token = $2::text::bigint and r.state = case when $7::bool then 2 else 1 end
     and (r.state = 2 and r.expires_at <= clock_timestamp()
          or r.state = 1 and r.lease_until <= clock_timestamp() and r.expires_at > clock_timestamp()
             and not exists (select 1 from ${schema}.step s where s.id = r.id)
             and not exists (select 1 from ${schema}.chunk k where k.id = r.id))
  returning r.id, r.token, r.life, r.expires_at
), d as (
  delete from ${schema}.recover c using u where c.id = u.id
), k as (
  delete from ${schema}.chunk k using u where k.id = u.id and k.life < u.life
)
select u.token::text as new_token, u.life::text as new_life, (u.expires_at at time zone 'utc')::date::text as new_day, pg_current_xact_id()::text as xid
  from u`
}
