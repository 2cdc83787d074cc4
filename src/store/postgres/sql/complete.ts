import { shardLocks } from './lock.ts'

/**
 * The statements that complete an operation. They write the answer and the events, or raise an error if this
 * transaction no longer holds the claim. COMMIT goes out in the same round trip, so a row count would be checked too
 * late. An error inside the database stops the COMMIT.
 *
 * Events: the locks of all shards are taken in ascending order before the first \`seq\` is drawn. So within a shard,
 * the sequence is the commit order.
 */

/**
 * Ordered events go through the view that finds their predecessor (outbox-view.ts). Delayed events do, too, so that
 * they can be cancelled (outbox-delayed.ts). Other events go straight into the table, which is cheaper.
 */
export type Into = 'event' | 'outbox'

/**
 * There is one statement for no event, one for a single event, and one for many. A single event is by far the most
 * frequent, and without arrays it costs a third.
 * $1 id, $2 day, $3 token, $4 status, $5 headers, $6 body (base64), $7 kept, $8 claiming xid, events from $9
 */
export function completeSql(schema: string): string {
  const status = `case when ${stillClaimedSql(schema)} then $4::int4 end`
  return `${insertAnswerSql(schema)} values (${ANSWER.replace('$4::int4', status)})`
}

/** One expression checks the claim, takes the lock and then draws the number, so the plan has only two inserts. */
export function completeEventSql(schema: string): string {
  return `
with a as (
  ${insertAnswerSql(schema)} values (${ANSWER})
)
${insertEventSql(schema, 'event')}
values (case when ${[stillClaimedSql(schema), ...shardLocks(schema, '$9::int4').map((lock) => `${lock} is not null`)].join(' and ')}
  then nextval('${schema}.event_seq') end, ${eventColumns(9)})`
}

export function completeEventsSql(schema: string, into: Into): string {
  return `
with ${eventsSql(schema, 9, '', into)}, a as (
  ${insertAnswerSql(schema)} values (${ANSWER})
)
select ${stillClaimedSql(schema)} as done`
}

const ANSWER = `$1::text::uuid, $2::text::date, $3::text::bigint, $4::int4, $5::text, decode($6::text, 'base64'), $7::bool`

/** True, or an error. Never false. */
export function stillClaimedSql(schema: string): string {
  return `case when pg_current_xact_id()::text = $8::text then true else ${schema}.fail('EO002') end`
}

function insertAnswerSql(schema: string): string {
  return `insert into ${schema}.answer (id, day, token, status, headers, body, kept)`
}

/**
 * Leased operations: the record must still be in progress under our token. Locks the record's row.
 * $1 id, $2 token, $3 status, $4 headers, $5 body (base64), $6 kept, $7 replay ms, $8 gone ms, $9 opening xid, events
 * from $10
 */
export function completeLeasedSql(schema: string, events: 'none' | 'one' | 'many', into: Into = 'event'): string {
  const publish = {
    none: '',
    one: `k as materialized (
  select ${shardLocks(schema, '$10::int4').join(', ')} from u
), e as (
  ${insertEventSql(schema, 'event')} select nextval('${schema}.event_seq'), ${eventColumns(10)} from k
), `,
    many: `${eventsSql(schema, 10, ', u', into)}, `,
  }[events]
  return `
with ${fenceSql(schema)}, ${publish}a as (
  ${insertAnswerSql(schema)}
  select $1::text::uuid, u.day, u.token, $3::int4, $4::text, decode($5::text, 'base64'), $6::bool from u
)
select ${stillHeldSql(schema, '$9', 'u')} as done`
}

/** True if the transaction is still open and this attempt still holds the lease. Otherwise an error. */
export function stillHeldSql(schema: string, xid: string, fence: string): string {
  return `case when pg_current_xact_id()::text <> ${xid}::text then ${schema}.fail('EO002')
    when exists (select 1 from ${fence}) then true else ${schema}.fail('EO001') end`
}

/**
 * A refusal of a leased operation, with the same fence and answer but no events. It commits by itself, and returns no
 * row if it is fenced.
 */
export function refuseLeasedSql(schema: string): string {
  return `
with ${fenceSql(schema)}, a as (
  insert into ${schema}.answer (id, day, token, status, headers, body, kept)
  select $1::text::uuid, u.day, u.token, $3::int4, $4::text, decode($5::text, 'base64'), $6::bool from u
)
select true as done from u`
}

/** Events alone (join(tx).publish). Events from $1. */
export function appendSql(schema: string, into: Into): string {
  return `with ${eventsSql(schema, 1, '', into)} select (select count(*) from k)::int4 as shards`
}

function fenceSql(schema: string): string {
  return `u as (
  update ${schema}.record r
     set state = 2, lease_until = null,
         expires_at = clock_timestamp() + $7::float8 * interval '1 millisecond',
         forget_at = clock_timestamp() + ($7::float8 + $8::float8) * interval '1 millisecond'
   where r.id = $1::text::uuid and r.token = $2::text::bigint and r.state = 1
  returning r.token, (r.expires_at at time zone 'utc')::date as day
), d as (
  delete from ${schema}.recover c using u where c.id = $1::text::uuid
)`
}

function insertEventSql(schema: string, into: Into): string {
  return `insert into ${schema}.${into} (seq, shard, id, aggregatetype, aggregateid, type, payload, headers, created_at)`
}

/** The columns of one event after its number: shard, id, aggregate type, aggregate id, type, payload and headers. */
function eventColumns(first: number): string {
  const p = (n: number): string => `$${first + n}`
  return `${p(0)}::int4, ${p(1)}::text::uuid, ${p(2)}::text, ${p(3)}::text, ${p(4)}::text, ${p(5)}::text::jsonb, ${p(6)}::text::jsonb, clock_timestamp()`
}

/**
 * Inserts many events, given as arrays: shard, id, aggregate type, aggregate id, type, payload and headers. All locks
 * are taken before the first number is drawn.
 */
export function eventsSql(schema: string, first: number, source: string, into: Into): string {
  const p = (n: number): string => `$${first + n}::text`
  const seq = into === 'event' ? `nextval('${schema}.event_seq')` : 'null::bigint'
  return `k as materialized (
  select ${shardLocks(schema, 'o.shard').join(', ')}
    from (select distinct s as shard from unnest(${p(0)}::int4[]) s order by s) o
), g as materialized (
  select count(*) from k
), e as (
  ${insertEventSql(schema, into)}
  select ${seq}, v.shard, v.id, v.aggregatetype, v.aggregateid, v.type, v.payload::jsonb, v.headers::jsonb, clock_timestamp()
    from g${source}, unnest(${p(0)}::int4[], ${p(1)}::uuid[], ${p(2)}::text[], ${p(3)}::text[], ${p(4)}::text[], ${p(5)}::text[], ${p(6)}::text[])
         as v(shard, id, aggregatetype, aggregateid, type, payload, headers)
)`
}
