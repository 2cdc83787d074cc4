/**
 * Takes over a lapsed lease (same life, next attempt), or starts a new life after expiry. Locks the record's row.
 * Returns no row if another process was quicker. A token is at least the database's time, so it never repeats, even
 * after a sweep. A record that was read as in progress may have been completed under the same token since: it does not
 * count as expired. The given input replaces the sealed one. A new life does not keep the old input and the old stream.
 * $1 id, $2 seen token, $3 fp, $4 fp version, $5 replay ms, $6 gone ms, $7 lease ms, $8 seen completed,
 * $9 recover namespace, $10 recover name, $11 recover input, $12 namespace, $13 route, $14 label
 */
export function takeOverSql(schema: string): string {
  return `
with u as (
  update ${schema}.record r
     set state = 1,
         fp = $3::text::uuid, fp_version = $4::int4,
         attempt = case when r.state = 1 then least(r.attempt + 1, 32000) else 1 end,
         token = greatest(r.token + 1, n.us),
         life = case when r.state = 1 then r.life else greatest(r.token + 1, n.us) end,
         lease_until = n.at + $7::float8 * interval '1 millisecond',
         namespace = $12::text, route = $13::text, label = $14::text,
         expires_at = case when r.state = 1 then r.expires_at else n.at + $5::float8 * interval '1 millisecond' end,
         forget_at = case when r.state = 1 then r.forget_at else n.at + ($5::float8 + $6::float8) * interval '1 millisecond' end
    from (select c.at, (extract(epoch from c.at) * 1000000)::bigint as us from (select clock_timestamp() as at) c) n
   where r.id = $1::text::uuid and r.token = $2::text::bigint and r.state = case when $8::bool then 2 else 1 end
     and (r.state = 1 and r.lease_until <= clock_timestamp() and r.expires_at > clock_timestamp()
          or r.state = 2 and r.expires_at <= clock_timestamp())
  returning r.id, r.token, r.life, r.attempt, r.expires_at
), s as (
  insert into ${schema}.recover (id, namespace, name, input)
  select u.id, $9::text, $10::text, $11::text from u where $10::text is not null
  on conflict (id) do update set namespace = excluded.namespace, name = excluded.name, input = excluded.input
), d as (
  delete from ${schema}.recover c using u where c.id = u.id and $8::bool and $10::text is null
), k as (
  delete from ${schema}.chunk k using u where k.id = u.id and k.life < u.life
)
select u.token::text as new_token, u.life::text as new_life, u.attempt::int4 as new_attempt, (u.expires_at at time zone 'utc')::date::text as new_day
  from u`
}

/**
 * Renews all leases of a process in one statement. A locked row belongs to an operation that is committing: it is
 * skipped, but still reported as held. \`lease_until\` is in no index, so these updates stay heap-only.
 * $1 ids, $2 tokens, $3 lease ms
 */
export function heartbeatSql(schema: string): string {
  return `
with v as materialized (
  select * from unnest($1::text::uuid[], $2::text::bigint[]) as v(id, token)
), l as materialized (
  select r.id from ${schema}.record r join v using (id, token) where r.state = 1 order by r.id for update of r skip locked
), u as (
  update ${schema}.record r set lease_until = clock_timestamp() + $3::float8 * interval '1 millisecond' from l where r.id = l.id
)
select r.id::text as id from ${schema}.record r join v using (id, token) where r.state = 1`
}

/** Ends the lease now. Locks the record's row. $1 id, $2 token */
export function releaseSql(schema: string): string {
  return `
update ${schema}.record set lease_until = clock_timestamp()
 where id = $1::text::uuid and token = $2::text::bigint and state = 1 returning true as done`
}

/** Marks the outcome as unknown. Locks the record's row. $1 id, $2 token */
export function suspendSql(schema: string): string {
  return `
update ${schema}.record set state = 3, lease_until = least(lease_until, clock_timestamp())
 where id = $1::text::uuid and token = $2::text::bigint and state = 1 returning true as done`
}

/** Lapsed operations whose input was sealed for recovery. Index: record_open. $1 namespace, $2 limit, $3 names (null: any) */
export function lapsedSql(schema: string): string {
  return `
select c.id::text as id, c.name, c.input
  from ${schema}.record r join ${schema}.recover c on c.id = r.id
 where r.state = 1 and r.lease_until <= clock_timestamp() and r.expires_at > clock_timestamp() and c.namespace = $1::text
   and ($3::text is null or c.name = any($3::text::text[]))
 order by r.lease_until limit $2::int4`
}

/**
 * The record is unknown, or it lapsed and expired, but the sweeper has not yet marked it. No attempt may take it over.
 * `r` is the record.
 */
export const IS_UNKNOWN = `(r.state = 3 or r.state = 1 and r.lease_until <= clock_timestamp() and r.expires_at <= clock_timestamp())`

/** Operations with an unknown outcome. Index: record_open. $1 limit */
export function unknownSql(schema: string): string {
  return `
select r.id::text as id, (extract(epoch from clock_timestamp() - r.lease_until) * 1000)::float8 as since_ms
  from ${schema}.record r where r.state <> 2 and ${IS_UNKNOWN} order by r.lease_until limit $1::int4`
}
