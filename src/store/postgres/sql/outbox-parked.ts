import { deadlineExpression } from './claim-function.ts'

/** An operator's statements for parked events. The relay keeps running meanwhile. */

/** $1 destination, $2 aggregate, $3 id, $4 after this seq, $5 limit */
export function listParkedSql(schema: string): string {
  return `
select h.shard::int4 as shard, h.seq::float8 as seq, e.id::text as id, h.aggregateid, e.type, h.attempts::int4 as attempts, h.reason,
       extract(epoch from e.created_at)::float8 * 1000 as published_at, extract(epoch from h.held_at)::float8 * 1000 as held_at
  from ${schema}.held h join ${schema}.event e on e.shard = h.shard and e.seq = h.seq
 where h.destination = $1::text and h.state = 3 and ($2::text is null or h.aggregateid = $2::text)
   and ($3::text is null or e.id = $3::text::uuid) and h.seq > $4::int8
 order by h.seq limit $5::int4`
}

/** $1 destination, $2 aggregate, $3 and $4 after this shard and aggregate, $5 limit */
export function parkedLinesSql(schema: string): string {
  return `
select h.shard::int4 as shard, h.aggregateid, min(h.seq) filter (where h.reason is not null)::float8 as head
  from ${schema}.held h
 where h.destination = $1::text and h.state = 3 and ($2::text is null or h.aggregateid = $2::text)
   and (h.shard, h.aggregateid) > ($3::int4, $4::text)
 group by h.shard, h.aggregateid order by h.shard, h.aggregateid limit $5::int4`
}

/**
 * Waits for a settlement of this shard, and blocks the next one until this transaction commits or reaches its deadline.
 * Locks the shard's row. $1 destination, $2 shard, $3 deadline ms
 */
export function lockShardSql(schema: string): string {
  return `
with d as materialized (
  select ${deadlineExpression('$3::text')} as deadline
)
select s.shard::int4 as shard from ${schema}.shard s cross join d
 where s.destination = $1::text and s.shard = $2::int4 for no key update of s`
}

/**
 * Releases the parked events that failed themselves. The events behind them follow later. $1 destination, $2 shard, $3
 * aggregates
 */
export function releaseParkedSql(schema: string): string {
  return `
update ${schema}.held h set state = 1, attempts = 0, tried = 0, due_at = null, reason = null
 where h.destination = $1::text and h.shard = $2::int4 and h.aggregateid = any($3::text::text[])
   and h.state = 3 and h.reason is not null
returning 1`
}

/** $1 destination, $2 shard, $3 seqs */
export function skipParkedSql(schema: string): string {
  return `
update ${schema}.held h set state = 4, due_at = null
 where h.destination = $1::text and h.shard = $2::int4 and h.seq = any($3::text::int8[]) and h.state = 3
returning 1`
}
