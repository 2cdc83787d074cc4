export function nextResendSql(schema: string): string {
  return `select nextval('${schema}.resend_no')::int4 as no`
}

/**
 * Sets events of one shard aside that the destination was sent already; what is not behind its cursor is sent anyway,
 * and what is held is sent or judged already. The first of each aggregate is due now, the others wait behind it: what
 * waits or is parked of the same aggregate stays where it is; what was skipped is sent. Locks nothing that exists.
 * $1 destination, $2 shard, $3 since, $4 until, $5 type, $6 aggregate, $7 number of the resend
 */
export function resendSql(schema: string): string {
  return `
with c as materialized (
  select coalesce(max(cursor), 0) as cursor from ${schema}.ack where destination = $1::text and shard = $2::int4
), h as (
  insert into ${schema}.held (destination, shard, seq, aggregateid, state, attempts, resend, due_at)
  select $1::text, e.shard, e.seq, e.aggregateid, 1, 0, $7::int4,
         case when row_number() over (partition by e.aggregateid order by e.seq) = 1 then clock_timestamp() end
    from ${schema}.event e, c
   where e.shard = $2::int4 and e.seq <= c.cursor and e.segment > 0
     and e.created_at >= $3::text::timestamptz and ($4::text is null or e.created_at < $4::text::timestamptz)
     and ($5::text is null or e.type = $5::text) and ($6::text is null or e.aggregateid = $6::text)
     and not exists (select 1 from ${schema}.held x
                      where x.destination = $1::text and x.shard = e.shard and x.seq = e.seq and x.state <> 4)
  on conflict (destination, shard, seq) do update
     set state = 1, attempts = 0, tried = 0, resend = excluded.resend, due_at = excluded.due_at, reason = null
   where held.state = 4
  returning 1
)
select count(*)::int4 as events from h`
}

/** Locks the destination's rows; a relay of it that still lives finds that nothing is its own any more. $1 destination */
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
