import { IS_UNKNOWN } from './lease.ts'

/** The operation is unknown or abandoned, so an operator may end it. `r` is the record. */
export const MAY_BE_ENDED = `(r.state = 3 or r.state = 1 and r.lease_until <= clock_timestamp())`

/** The state in the operator's words. `r` is the record. */
export const STATE: string = `case when r.state = 2 then 'completed' when ${IS_UNKNOWN} then 'unknown'
    when r.lease_until <= clock_timestamp() then 'abandoned' else 'running' end`

/** The number of a life is the time at which it began, in microseconds. */
const AGE_MS = `(extract(epoch from clock_timestamp()) * 1000 - r.life / 1000.0)::float8`

const COLUMNS = `r.id::text as id, ${STATE} as state, r.namespace, r.route, r.label, r.attempt::int4 as attempt, r.life::text as life,
       ${AGE_MS} as age_ms, (extract(epoch from r.lease_until - clock_timestamp()) * 1000)::float8 as lease_left_ms, c.name as recover`

/**
 * Operations that are not completed, oldest first. Index: record_open.
 * $1 namespace, $2 state, $3 route, $4 label, $5 scope (null: any), $6 older than ms, $7 limit
 */
export function listOperationsSql(schema: string): string {
  return `
select ${COLUMNS}
  from ${schema}.record r left join ${schema}.recover c on c.id = r.id
 where r.state <> 2 and ($1::text is null or r.namespace is null or r.namespace = $1::text)
   and ($2::text is null or $2::text = ${STATE}) and ($3::text is null or r.route = $3::text)
   and ($4::text is null or r.label = $4::text) and ($5::text is null or r.scope = $5::text::uuid)
   and ${AGE_MS} >= $6::float8
 order by r.life, r.id limit $7::int4`
}

/** One operation in any state. $1 id */
export function showOperationSql(schema: string): string {
  return `
select ${COLUMNS}, c.input from ${schema}.record r left join ${schema}.recover c on c.id = r.id where r.id = $1::text::uuid`
}

/**
 * Ends the lease of any holder. The token rises, so the holder is fenced. Refused while a call without a key is
 * unfinished, because it is unknown whether the call must be repeated. Locks the record's row. $1 id, $2 replay ms, $3
 * gone ms
 */
export function evictSql(schema: string): string {
  return `
update ${schema}.record r set state = 1, lease_until = clock_timestamp(),
       token = greatest(r.token + 1, (extract(epoch from clock_timestamp()) * 1000000)::bigint),
       expires_at = greatest(r.expires_at, clock_timestamp() + $2::float8 * interval '1 millisecond'),
       forget_at = greatest(r.forget_at, clock_timestamp() + ($2::float8 + $3::float8) * interval '1 millisecond')
 where r.id = $1::text::uuid and r.state <> 2
   and not exists (select 1 from ${schema}.step s where s.id = r.id and s.life = r.life and s.state = 1)
returning true as done`
}
