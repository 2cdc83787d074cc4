import { deadlineExpression } from './claim-function.ts'

/** The relay's statements. Nothing on its hot path (read, ack) updates or deletes a row. */

/** Shards nobody has leased yet. Locks nothing that exists. $1 destination, $2 shards */
export function openDestinationSql(schema: string): string {
  return `
insert into ${schema}.shard (destination, shard)
select $1::text, g from generate_series(0, $2::int4 - 1) g
on conflict do nothing`
}

/**
 * Presence, leases, and what the others do, in one statement. Locks the relay's own rows; whoever takes a lapsed shard
 * skips locked rows, so nobody waits for anybody.
 * $1 destination, $2 relay, $3 lease ms, $4 shards, $5 tokens
 */
export function beatSql(schema: string): string {
  return `
with p as (
  insert into ${schema}.relay (destination, id, until)
  values ($1::text, $2::text::uuid, clock_timestamp() + $3::float8 * interval '1 millisecond')
  on conflict (destination, id) do update set until = excluded.until
), b as (
  update ${schema}.shard s set lease_until = clock_timestamp() + $3::float8 * interval '1 millisecond'
    from unnest($4::text::int4[], $5::text::int8[]) v(shard, token)
   where s.destination = $1::text and s.shard = v.shard and s.token = v.token
  returning s.shard
), d as (
  delete from ${schema}.relay r where (r.destination, r.id) in (
    select destination, id from ${schema}.relay
     where until < clock_timestamp() - interval '1 hour' and id <> $2::text::uuid limit 100 for update skip locked)
)
select (select count(*) + 1 from ${schema}.relay r
         where r.destination = $1::text and r.id <> $2::text::uuid and r.until > clock_timestamp())::int4 as relays,
       (select count(*) from ${schema}.shard s
         where s.destination = $1::text and s.lease_until <= clock_timestamp())::int4 as free,
       (select coalesce(string_agg(b.shard::text, ','), '') from b) as ours,
       exists (select 1 from ${schema}.held h
         where h.destination = $1::text and h.due_at <= clock_timestamp() and h.state in (1, 2)
           and h.shard = any($4::text::int4[])) as due`
}

/**
 * Takes free shards. Locks the rows it takes, skipping locked ones.
 * $1 destination, $2 lease ms, $3 limit
 */
export function leaseShardsSql(schema: string): string {
  return `
update ${schema}.shard s
   set token = s.token + 1, lease_until = clock_timestamp() + $2::float8 * interval '1 millisecond'
 where (s.destination, s.shard) in (
   select destination, shard from ${schema}.shard
    where destination = $1::text and lease_until <= clock_timestamp()
    order by shard limit $3::int4 for update skip locked)
returning s.shard::int4 as shard, s.token::float8 as token`
}

/** What the last owner left. Read after the lease was won, so a cursor of before is seen. $1 destination, $2 shards */
export function cursorsSql(schema: string): string {
  return `
select v.shard, a.cursor::float8 as cursor, a.trying_to::float8 as trying_to, a.attempt::int4 as attempt,
       a.event_segment, a.counted::float8 as counted
  from unnest($2::text::int4[]) v(shard)
  cross join lateral (
    select cursor, trying_to, attempt, event_segment, counted from ${schema}.ack
     where destination = $1::text and shard = v.shard
     order by cursor desc, token desc, segment desc limit 1) a`
}

/** Aggregates that wait or are parked. $1 destination, $2 shards */
export function blockedSql(schema: string): string {
  return `
select h.shard::int4 as shard, h.aggregateid, bool_or(h.state = 3) as parked
  from ${schema}.held h
 where h.destination = $1::text and h.shard = any($2::text::int4[]) and h.state in (1, 3)
 group by h.shard, h.aggregateid`
}

/**
 * Events behind the cursors, whether a shard is free, and what is sealed: always one row at least. Segments before the
 * cursor's are not looked at, nor is the one of held events.
 * $1 destination, $2 shards, $3 cursors, $4 per shard, $5 of all, $6 segments
 */
export function readEventsSql(schema: string): string {
  return `
select f.free, f.sealed, r.*
  from (select exists (select 1 from ${schema}.shard s where s.destination = $1::text and s.lease_until <= clock_timestamp()) as free,
               (select coalesce(max(g.no), 0) from ${schema}.segment g where g.name = 'event' and g.state > 3)::int4 as sealed) f
  left join lateral (
    select ${EVENT_COLUMNS}
      from unnest($2::text::int4[], $3::text::int8[], $6::text::int4[]) v(shard, cursor, segment)
      cross join lateral (
        select * from ${schema}.event
         where shard = v.shard and seq > v.cursor and segment >= greatest(v.segment, 1) order by seq limit $4::int4) e
     limit $5::int4) r on true`
}

const EVENT_COLUMNS = `e.shard::int4 as shard, e.seq::float8 as seq, e.segment, e.id::text as id, e.aggregatetype, e.aggregateid, e.type,
           e.payload::text as payload, e.headers::text as headers, extract(epoch from e.created_at)::float8 * 1000 as at`

/**
 * The acknowledgement: a cursor is inserted where the token is still ours. It is written after the send, so even a late
 * one is true; the fence only makes its owner stop. What was held by somebody else meanwhile is not ours to tell of.
 * Locks nothing; only where the same owner announces something else from the same cursor, suspects, a row is updated.
 * $1 destination, $2 shards, $3 cursors, $4 tokens, $5 trying to, $6 attempts, $7 segments, $8 counts, held events from $9
 */
export function ackSql(schema: string): string {
  return `
with m as materialized (
  select v.* from unnest($2::text::int4[], $3::text::int8[], $4::text::int8[], $5::text::int8[], $6::text::int4[],
                         $7::text::int4[], $8::text::int8[])
         v(shard, cursor, token, trying_to, attempt, event_segment, counted)
    join ${schema}.shard s on s.destination = $1::text and s.shard = v.shard and s.token = v.token
), a as (
  insert into ${schema}.ack (destination, shard, cursor, token, trying_to, attempt, event_segment, counted)
  select $1::text, m.shard, m.cursor, m.token, m.trying_to, m.attempt, m.event_segment, m.counted from m
  on conflict (destination, shard, cursor, token, segment) do update
     set trying_to = excluded.trying_to, attempt = excluded.attempt
   where (ack.trying_to, ack.attempt) is distinct from (excluded.trying_to, excluded.attempt)
), v as materialized (
  select v.* from ${heldRows(9)} where v.shard in (select m.shard from m)
), h as (
  insert into ${schema}.held (destination, shard, seq, aggregateid, state, attempts, due_at, reason)
  select $1::text, v.shard, v.seq, v.aggregateid, v.state, v.attempts, ${DUE_AT}, v.reason from v
  on conflict do nothing
  returning shard, seq
), p as (
  select v.shard, v.seq from v
   where v.state = 3 and v.reason is not null
     and ((v.shard, v.seq) in (select h.shard, h.seq from h)
       or exists (select 1 from ${schema}.held x
                   where x.destination = $1::text and x.shard = v.shard and x.seq = v.seq and x.state = 3))
)
select (select coalesce(string_agg(m.shard::text, ','), '') from m) as ours,
       (select coalesce(string_agg(p.shard::text || ' ' || p.seq::text, ','), '') from p) as parked`
}

const DUE_AT = `coalesce(v.not_before::timestamptz, clock_timestamp() + v.due_in * interval '1 millisecond')`

function heldRows(first: number): string {
  const p = (n: number): string => `$${first + n}::text`
  return `unnest(${p(0)}::int4[], ${p(1)}::int8[], ${p(2)}::text[], ${p(3)}::int4[], ${p(4)}::int4[], ${p(5)}::float8[], ${p(6)}::text[], ${p(7)}::text[])
         as v(shard, seq, aggregateid, state, attempts, due_in, not_before, reason)`
}

/**
 * Heads whose time has come, with what waits behind them.
 * $1 destination, $2 shards, $3 heads, $4 behind each
 */
export function dueSql(schema: string): string {
  return `
with heads as materialized (
  select shard, seq, aggregateid, state, attempts, tried, resend from ${schema}.held
   where destination = $1::text and due_at <= clock_timestamp() and shard = any($2::text::int4[]) and state in (1, 2)
   order by due_at limit $3::int4
), d as (
  select shard, seq, state, attempts, tried, resend from heads
  union
  select b.shard, b.seq, b.state, b.attempts, b.tried, b.resend
    from heads cross join lateral (
      select shard, seq, state, attempts, tried, resend from ${schema}.held h
       where h.destination = $1::text and h.shard = heads.shard and h.aggregateid = heads.aggregateid
         and h.state = 1 and h.seq > heads.seq
       order by h.seq limit $4::int4) b
   where heads.state = 1
)
select ${EVENT_COLUMNS}, d.state::int4 as state, d.attempts::int4 as attempts, d.tried, d.resend
  from d join ${schema}.event e on e.shard = d.shard and e.seq = d.seq
 order by e.shard, e.seq`
}

/** $1 destination, $2 shards */
export function nextDueSql(schema: string): string {
  return `
select extract(epoch from min(due_at) - clock_timestamp())::float8 * 1000 as next_in_ms from ${schema}.held
 where destination = $1::text and due_at is not null and shard = any($2::text::int4[]) and state in (1, 2)`
}

/**
 * Before held events are sent: what is counted here and never settled was on its way when its relay died. Locks the
 * events' rows; their shards are only looked at, so a late one counts once too often, and sends nothing.
 * $1 destination, $2 shards, $3 tokens, $4 shards of the events, $5 seqs, $6 tried, $7 due in ms
 */
export function tryHeldSql(schema: string): string {
  return `
with m as materialized (
  select s.shard from ${schema}.shard s
    join unnest($2::text::int4[], $3::text::int8[]) v(shard, token) on s.shard = v.shard and s.token = v.token
   where s.destination = $1::text
), u as (
  update ${schema}.held h
     set tried = v.tried, due_at = coalesce(clock_timestamp() + v.due_in * interval '1 millisecond', h.due_at)
    from unnest($4::text::int4[], $5::text::int8[], $6::text::int4[], $7::text::float8[]) v(shard, seq, tried, due_in)
    join m on m.shard = v.shard
   where h.destination = $1::text and h.shard = v.shard and h.seq = v.seq
)
select coalesce(string_agg(m.shard::text, ','), '') as ours from m`
}

/**
 * First of a settlement: the shards that are ours, held until it commits, or until its deadline: a relay that stops in
 * the middle must not keep them from whoever takes over. Locks their rows.
 * $1 destination, $2 shards, $3 tokens, $4 deadline ms
 */
export function fenceShardsSql(schema: string): string {
  return `
with d as materialized (
  select ${deadlineExpression('$4::text')} as deadline
)
select s.shard::int4 as shard from ${schema}.shard s
  join unnest($2::text::int4[], $3::text::int8[]) v(shard, token) on s.shard = v.shard and s.token = v.token
  cross join d
 where s.destination = $1::text order by s.shard for share of s`
}

/** $1 destination, $2 shards, $3 seqs */
export function deleteHeldSql(schema: string): string {
  return `
delete from ${schema}.held h using unnest($2::text::int4[], $3::text::int8[]) v(shard, seq)
 where h.destination = $1::text and h.shard = v.shard and h.seq = v.seq`
}

/** Answers with what was there to change. $1 destination, rows from $2 */
export function changeHeldSql(schema: string): string {
  return `
update ${schema}.held h set state = v.state, attempts = v.attempts, due_at = ${DUE_AT}, reason = v.reason, tried = 0
  from ${heldRows(2)}
 where h.destination = $1::text and h.shard = v.shard and h.seq = v.seq
returning h.shard::int4 as shard, h.seq::float8 as seq, h.state = 3 and h.reason is not null as parked`
}

/** What was not sent after all. $1 destination, $2 shards, $3 seqs, $4 tried */
export function keepHeldSql(schema: string): string {
  return `
update ${schema}.held h set tried = v.tried from unnest($2::text::int4[], $3::text::int8[], $4::text::int4[]) v(shard, seq, tried)
 where h.destination = $1::text and h.shard = v.shard and h.seq = v.seq`
}

/** What waits behind a parked event is parked with it. $1 destination, $2 shards, $3 aggregates */
export function parkHeldSql(schema: string): string {
  return `
update ${schema}.held h set state = 3, due_at = null
  from unnest($2::text::int4[], $3::text::text[]) v(shard, aggregateid)
 where h.destination = $1::text and h.shard = v.shard and h.aggregateid = v.aggregateid and h.state = 1`
}

/** The first of each aggregate that still waits is due now, unless it has a time. $1 destination, $2 shards, $3 aggregates */
export function promoteHeldSql(schema: string): string {
  return `
update ${schema}.held h set due_at = clock_timestamp()
 where h.due_at is null and h.state = 1 and (h.destination, h.shard, h.seq) in (
   select $1::text, v.shard, n.seq
     from unnest($2::text::int4[], $3::text::text[]) v(shard, aggregateid)
     cross join lateral (
       select seq from ${schema}.held x
        where x.destination = $1::text and x.shard = v.shard and x.aggregateid = v.aggregateid and x.state = 1
        order by x.seq limit 1) n)`
}

/** Those of the given aggregates that are still blocked. $1 destination, $2 shards, $3 aggregates */
export function stillBlockedSql(schema: string): string {
  return `
select h.shard::int4 as shard, h.aggregateid, bool_or(h.state = 3) as parked
  from ${schema}.held h join unnest($2::text::int4[], $3::text::text[]) v(shard, aggregateid)
    on h.shard = v.shard and h.aggregateid = v.aggregateid
 where h.destination = $1::text and h.state in (1, 3)
 group by h.shard, h.aggregateid`
}

/**
 * Gives shards back under a new token, so that a late heartbeat cannot lease them again for nobody, and takes back the
 * intent of a batch that was not tried. Locks the shards' rows.
 * $1 destination, $2 shards, $3 tokens, $4 relay (null: it stays)
 */
export function releaseShardsSql(schema: string): string {
  return `
with u as (
  update ${schema}.shard s set lease_until = '-infinity', token = s.token + 1
    from unnest($2::text::int4[], $3::text::int8[]) v(shard, token)
   where s.destination = $1::text and s.shard = v.shard and s.token = v.token
  returning s.shard, v.token
), n as (
  select u.shard, u.token, (select max(cursor) from ${schema}.ack where destination = $1::text and shard = u.shard) as cursor from u
), i as (
  update ${schema}.ack a set trying_to = null, attempt = 0
    from n
   where a.destination = $1::text and a.shard = n.shard and a.cursor = n.cursor and a.token = n.token and a.trying_to is not null
), g as (
  delete from ${schema}.relay r where r.destination = $1::text and r.id = $4::text::uuid
)
select count(*)::int4 as released from u`
}
