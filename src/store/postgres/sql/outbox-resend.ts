export function nextResendSql(schema: string): string {
  return `select nextval('${schema}.resend_no')::int4 as no`
}

const CHOSEN = `e.shard = $2::int4 and e.segment > 0
     and e.created_at >= $3::text::timestamptz and ($4::text is null or e.created_at < $4::text::timestamptz)
     and e.headers->'erased' is distinct from 'true' and ($5::text is null or e.type = $5::text) and ($6::text is null or e.aggregateid = $6::text)`

const IS_DELAYED = `jsonb_typeof(e.headers->'notbefore') is not distinct from 'string'`

/**
 * The times of the events that `resendSql` may set aside, as their producers wrote them. A value may not be a time at
 * all.
 * $1 destination, $2 shard, $3 since, $4 until, $5 type, $6 aggregate
 */
export function resendTimesSql(schema: string): string {
  return `
select e.seq::float8 as seq, e.headers->>'notbefore' as not_before
  from ${schema}.event e
 where ${CHOSEN} and ${IS_DELAYED}
   and e.seq <= (select max(a.cursor) from ${schema}.ack a where a.destination = $1::text and a.shard = $2::int4)`
}

/**
 * Holds events of one shard that were already sent, so that they are sent again. Events after its cursor are sent anyway,
 * and held events have their own state. An event whose time has not come waits for that time, and does not block other
 * events. Among the others, the first event of each aggregate is due now, and the rest wait behind it. Waiting and
 * parked events stay as they are. Skipped events are sent, cancelled ones are not. Locks no existing row.
 * $1 destination, $2 shard, $3 since, $4 until, $5 type, $6 aggregate, $7 number of the resend,
 * all events with a time: $8 seqs, $9 times. A missing one passed the cursor meanwhile, and is left out.
 */
export function resendSql(schema: string): string {
  return `
with c as materialized (
  select coalesce(max(cursor), 0) as cursor from ${schema}.ack where destination = $1::text and shard = $2::int4
), e as materialized (
  select e.shard, e.seq, e.aggregateid,
         case when t.not_before::timestamptz > clock_timestamp() then t.not_before::timestamptz end as later
    from ${schema}.event e cross join c
    left join unnest($8::text::int8[], $9::text::text[]) t(seq, not_before) on t.seq = e.seq
   where e.seq <= c.cursor and ${CHOSEN} and (t.seq is not null or not ${IS_DELAYED})
     and not exists (select 1 from ${schema}.delayed d where d.id = e.id and d.shard = e.shard and d.state = 3)
     and not exists (select 1 from ${schema}.held x
                      where x.destination = $1::text and x.shard = e.shard and x.seq = e.seq and x.state <> 4)
), h as (
  insert into ${schema}.held (destination, shard, seq, aggregateid, state, attempts, resend, due_at)
  select $1::text, e.shard, e.seq, e.aggregateid, case when e.later is null then 1 else 2 end, 0, $7::int4,
         case when row_number() over (partition by e.aggregateid, e.later is null order by e.seq) = 1
              then coalesce(e.later, clock_timestamp()) else e.later end
    from e
  on conflict (destination, shard, seq) do update
     set state = excluded.state, attempts = 0, tried = 0, resend = excluded.resend, due_at = excluded.due_at, reason = null
   where held.state = 4
  returning 1
)
select count(*)::int4 as events from h`
}

/**
 * Locks the destination's rows. A relay that still sends to the destination finds that it has lost its shards. $1
 * destination
 */
export function forgetDestinationSql(schema: string): string {
  return `
with r as (delete from ${schema}.relay where destination = $1::text),
     h as (delete from ${schema}.held where destination = $1::text),
     a as (delete from ${schema}.ack where destination = $1::text),
     u as (delete from ${schema}.unclaimed where kind = 'destination' and name = $1::text)
delete from ${schema}.shard where destination = $1::text`
}

export function destinationsSql(schema: string): string {
  return `select distinct destination from ${schema}.shard order by 1`
}
