import { deadlineExpression } from './claim-function.ts'
import { SERVER } from './identity.ts'

/** The relay's statements. Nothing on its hot path (read, ack) updates or deletes a row. */

/**
 * Creates the shards of a new destination, not leased yet. Locks no existing row. $1 destination, $2 shards, $3 the
 * first of them
 */
export function openDestinationSql(schema: string): string {
  return `
insert into ${schema}.shard (destination, shard)
select $1::text, g from generate_series($3::int4, $3::int4 + $2::int4 - 1) g
on conflict do nothing`
}

/**
 * The heartbeat of a relay, in one statement: its presence, its leases, and how many relays and free shards there are.
 * Locks the relay's own shards. A relay that takes a lapsed shard skips locked rows, so a heartbeat waits only for a
 * settlement of the same relay, which locks the rows in the same order.
 * $1 destination, $2 relay, $3 lease ms, $4 shards, $5 tokens, $6 present ms, $7 cursors, the last event that was read
 * of each shard: $8 segment, $9 seq, $10 id
 */
export function beatSql(schema: string): string {
  return `
with p as (
  insert into ${schema}.relay (destination, id, until)
  values ($1::text, $2::text::uuid, clock_timestamp() + $6::float8 * interval '1 millisecond')
  on conflict (destination, id) do update set until = excluded.until
), l as materialized (
  select s.shard, s.token from ${schema}.shard s
    join unnest($4::text::int4[], $5::text::int8[], $7::text::int8[], $8::text::int4[], $9::text::int8[], $10::text::text[])
         v(shard, token, cursor, segment, seq, id) on s.shard = v.shard and s.token = v.token
   where s.destination = $1::text and ${reached(schema, 'v.shard', 'v.cursor')} and (v.id is null or ${isThere(schema, 'v')})
   order by s.shard for no key update of s
), b as (
  update ${schema}.shard s set lease_until = clock_timestamp() + $3::float8 * interval '1 millisecond'
    from l where s.destination = $1::text and s.shard = l.shard and s.token = l.token
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
 * The database has a cursor at least as new as the relay's. After a failover that lost transactions, it has not. $1
 * destination
 */
export function reached(schema: string, shard: string, cursor: string): string {
  return `coalesce(${cursor}, 0) <= coalesce((
     select k.cursor from ${schema}.ack k where k.destination = $1::text and k.shard = ${shard}
      order by k.cursor desc limit 1), 0)`
}

/** The event that was read still exists. After a failover that lost transactions, another event may have its number. */
export function isThere(schema: string, seen: string): string {
  return `exists (
     select 1 from ${schema}.event e
      where e.segment = ${seen}.segment and e.shard = ${seen}.shard and e.seq = ${seen}.seq and e.id::text = ${seen}.id)`
}

/**
 * Takes free shards. Locks the rows it takes, and skips locked ones. A token is at least the database's time, so a
 * server that has lost the last tokens does not use them again.
 * $1 destination, $2 lease ms, $3 limit
 */
export function leaseShardsSql(schema: string): string {
  return `
update ${schema}.shard s
   set token = greatest(s.token + 1, (extract(epoch from clock_timestamp()) * 1000000)::int8),
       lease_until = clock_timestamp() + $2::float8 * interval '1 millisecond'
 where (s.destination, s.shard) in (
   select destination, shard from ${schema}.shard
    where destination = $1::text and lease_until <= clock_timestamp()
    order by shard limit $3::int4 for update skip locked)
returning s.shard::int4 as shard, s.token::float8 as token`
}

/**
 * The state that the last owner left. It is read after the lease was won, so the owner's last cursor is visible. $1
 * destination, $2 shards
 */
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

/** Higher than the number of any event. */
const NEVER = '9223372036854775807'

/**
 * Aggregates that wait or are parked, and whether they have orphans: parked events without a failed event before them.
 * $1 destination, $2 shards
 */
export function blockedSql(schema: string): string {
  return `
select h.shard::int4 as shard, h.aggregateid, bool_or(h.state = 3) as parked,
       coalesce(min(h.seq) filter (where h.state = 3 and h.reason is null)
              < coalesce(min(h.seq) filter (where h.state = 3 and h.reason is not null), ${NEVER}), false) as orphaned
  from ${schema}.held h
 where h.destination = $1::text and h.shard = any($2::text::int4[]) and h.state in (1, 3)
 group by h.shard, h.aggregateid`
}

/** Null: any server may answer. */
export function isServer(parameter: string): string {
  return `(${parameter}::text is null or ${SERVER} = ${parameter}::text)`
}

const SEALED_AT = '(extract(epoch from g.since) * 1000000)::int8::text'

/**
 * Reads the events after the cursors, whether a shard is free, and the newest sealed segment: always at least one row.
 * Segments before the cursor's are not read, nor the one of held events. But if the server does not know the given
 * seal, all segments are read.
 * $1 destination, $2 shards, $3 cursors, $4 per shard, $5 in total, $6 segments, $7 bytes, a seal: $8 segment, $9 time,
 * $10 which server answered last
 */
export function readEventsSql(schema: string): string {
  return `
with k as materialized (
  select $8::int4 is null or exists (
    select 1 from ${schema}.segment g where g.name = 'event' and g.no = $8::int4 and g.state > 3 and ${SEALED_AT} = $9::text) as is_known
)
select f.*, r.*
  from (select exists (select 1 from ${schema}.shard s where s.destination = $1::text and s.lease_until <= clock_timestamp()) as free,
               nullif(${SERVER}, $10::text) as server, k.is_known, g.no as sealed, ${SEALED_AT} as sealed_at
          from k left join (select no, since from ${schema}.segment where name = 'event' and state > 3 order by no desc limit 1) g on true) f
  left join lateral (${withinBytes(
    `
    select ${EVENT_COLUMNS}
      from unnest($2::text::int4[], $3::text::int8[], $6::text::int4[]) v(shard, cursor, segment)
      cross join lateral (
        select * from ${schema}.event
         where shard = v.shard and seq > v.cursor and segment >= (case when (select k.is_known from k) then greatest(v.segment, 1) else 1 end) order by seq limit $4::int4) e
     limit $5::int4`,
    '$7',
  )}) r on true`
}

/** The first of these events, up to about this many bytes of payload, but at least one event. */
function withinBytes(events: string, bytes: string, more = ''): string {
  return `
  select ${EVENT_NAMES}${more} from (
    select e.*, sum(coalesce(octet_length(e.payload), 0)) over (rows unbounded preceding) as total from (${events}) e) s
   where s.total - coalesce(octet_length(s.payload), 0) < ${bytes}::int8`
}

const EVENT_NAMES =
  's.shard, s.seq, s.segment, s.id, s.aggregatetype, s.aggregateid, s.type, s.payload, s.headers, s.at'

const EVENT_COLUMNS = `e.shard::int4 as shard, e.seq::float8 as seq, e.segment, e.id::text as id, e.aggregatetype, e.aggregateid, e.type,
           e.payload::text as payload, e.headers::text as headers, extract(epoch from e.created_at)::float8 * 1000 as at`

export const DUE_AT = `coalesce(v.not_before::timestamptz, clock_timestamp() + v.due_in * interval '1 millisecond')`

export function heldRows(first: number): string {
  const p = (n: number): string => `$${first + n}::text`
  return `unnest(${p(0)}::int4[], ${p(1)}::int8[], ${p(2)}::text[], ${p(3)}::int4[], ${p(4)}::int4[], ${p(5)}::float8[], ${p(6)}::text[], ${p(7)}::text[])
         as v(shard, seq, aggregateid, state, attempts, due_in, not_before, reason)`
}

/**
 * The first held events of aggregates whose time has come, with the events that wait behind them.
 * $1 destination, $2 shards, $3 heads, $4 behind each, $5 bytes, $6 aggregates that are left out
 */
export function dueSql(schema: string): string {
  return `
with heads as materialized (
  select shard, seq, aggregateid, state, attempts, tried, resend from ${schema}.held
   where destination = $1::text and due_at <= clock_timestamp() and shard = any($2::text::int4[]) and state in (1, 2)
     and aggregateid <> all($6::text::text[])
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
${withinBytes(
  `
select ${EVENT_COLUMNS}, d.state::int4 as state, d.attempts::int4 as attempts, d.tried, d.resend
  from d join ${schema}.event e on e.shard = d.shard and e.seq = d.seq
 order by e.shard, e.seq`,
  '$5',
  ', s.state, s.attempts, s.tried, s.resend',
)}`
}

/** $1 destination, $2 shards */
export function nextDueSql(schema: string): string {
  return `
select extract(epoch from min(due_at) - clock_timestamp())::float8 * 1000 as next_in_ms from ${schema}.held
 where destination = $1::text and due_at is not null and shard = any($2::text::int4[]) and state in (1, 2)`
}

/**
 * Counts a try before held events are sent. An event that is counted here and never settled was in flight when its
 * relay died. Locks the events' rows, but not their shards. So a relay that has just lost a shard may count a try too
 * many, but sends nothing.
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
 * The first statement of a settlement: locks the shards that are still ours until the transaction commits or reaches
 * its deadline. The deadline matters if a relay hangs in the middle: another relay must be able to take over.
 * $1 destination, $2 shards, $3 tokens, $4 deadline ms, $5 the only server that may answer
 */
export function fenceShardsSql(schema: string): string {
  return `
with d as materialized (
  select ${deadlineExpression('$4::text')} as deadline
)
select s.shard::int4 as shard from ${schema}.shard s
  join unnest($2::text::int4[], $3::text::int8[]) v(shard, token) on s.shard = v.shard and s.token = v.token
  cross join d
 where s.destination = $1::text and ${isServer('$5')} order by s.shard for share of s`
}

/** $1 destination, $2 shards, $3 seqs */
export function deleteHeldSql(schema: string): string {
  return `
delete from ${schema}.held h using unnest($2::text::int4[], $3::text::int8[]) v(shard, seq)
 where h.destination = $1::text and h.shard = v.shard and h.seq = v.seq`
}

/** Returns the rows that existed and were changed. $1 destination, rows from $2 */
export function changeHeldSql(schema: string): string {
  return `
update ${schema}.held h set state = v.state, attempts = v.attempts, due_at = ${DUE_AT}, reason = v.reason, tried = 0
  from ${heldRows(2)}
 where h.destination = $1::text and h.shard = v.shard and h.seq = v.seq
returning h.shard::int4 as shard, h.seq::float8 as seq, h.state = 3 and h.reason is not null as parked`
}

/** Takes back the tries of events that were not sent. $1 destination, $2 shards, $3 seqs, $4 tried */
export function keepHeldSql(schema: string): string {
  return `
update ${schema}.held h set tried = v.tried from unnest($2::text::int4[], $3::text::int8[], $4::text::int4[]) v(shard, seq, tried)
 where h.destination = $1::text and h.shard = v.shard and h.seq = v.seq`
}

/**
 * Parks the events that wait behind a parked event. A delayed event that comes earlier in line does not wait behind it.
 * $1 destination, $2 shards, $3 aggregates
 */
export function parkHeldSql(schema: string): string {
  return `
update ${schema}.held h set state = 3, due_at = null, reason = null
  from unnest($2::text::int4[], $3::text::text[]) v(shard, aggregateid)
 where h.destination = $1::text and h.shard = v.shard and h.aggregateid = v.aggregateid and h.state = 1
   and exists (select 1 from ${schema}.held x where x.destination = $1::text and x.shard = h.shard and x.aggregateid = h.aggregateid
                  and x.state = 3 and x.reason is not null and x.seq < h.seq)`
}

/**
 * Lets orphans wait in line again, beginning with the first of each aggregate.
 * $1 destination, $2 shards, $3 aggregates, $4 limit
 */
export function unparkOrphansSql(schema: string): string {
  return `
update ${schema}.held h set state = 1, attempts = 0, tried = 0, due_at = null
 where h.destination = $1::text and h.shard = any($2::text::int4[]) and h.state = 3 and h.reason is null and h.seq = any(array(
   select o.seq
     from unnest($2::text::int4[], $3::text::text[]) with ordinality v(shard, aggregateid, place)
     cross join lateral (
       select x.seq from ${schema}.held x
        where x.destination = $1::text and x.shard = v.shard and x.aggregateid = v.aggregateid and x.state = 3 and x.reason is null
          and x.seq < coalesce((select min(y.seq) from ${schema}.held y
                where y.destination = $1::text and y.shard = v.shard and y.aggregateid = v.aggregateid
                  and y.state = 3 and y.reason is not null), ${NEVER})
        order by x.seq limit $4::int4) o
    order by v.place, o.seq limit $4::int4))
returning 1`
}

/**
 * Makes the first waiting event of each aggregate due now, unless it has a time. The array is computed once: after a
 * resend the table has no statistics yet, and a join would compute the first events again for every held event.
 * $1 destination, $2 shards, $3 aggregates
 */
export function promoteHeldSql(schema: string): string {
  return `
update ${schema}.held h set due_at = clock_timestamp()
 where h.destination = $1::text and h.shard = any($2::text::int4[]) and h.due_at is null and h.state = 1
   and h.seq = any(array(
   select n.seq
     from unnest($2::text::int4[], $3::text::text[]) v(shard, aggregateid)
     cross join lateral (
       select seq from ${schema}.held x
        where x.destination = $1::text and x.shard = v.shard and x.aggregateid = v.aggregateid and x.state = 1
        order by x.seq limit 1) n))`
}

/** Which of the given aggregates are still blocked. $1 destination, $2 shards, $3 aggregates */
export function stillBlockedSql(schema: string): string {
  return `
select v.shard, v.aggregateid, b.parked
  from unnest($2::text::int4[], $3::text::text[]) v(shard, aggregateid)
  cross join lateral (
    select bool_or(h.state = 3) as parked from ${schema}.held h
     where h.destination = $1::text and h.shard = v.shard and h.aggregateid = v.aggregateid and h.state in (1, 3)) b
 where b.parked is not null`
}
