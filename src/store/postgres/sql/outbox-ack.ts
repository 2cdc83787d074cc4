import { DUE_AT, heldRows, isServer, isThere, reached } from './outbox.ts'

/**
 * Acknowledges: inserts a cursor for each shard whose token is still ours. The cursor is written after the send, so
 * even a late one is true. The fence only makes the former owner stop. An event that another relay holds meanwhile is
 * left alone. Locks nothing. A row is updated only if the same owner writes other suspects at the same cursor. If the
 * server has lost the shard's cursor or an event that was read, the whole shard is refused.
 * $1 destination, $2 shards, $3 cursors, $4 tokens, $5 trying to, $6 attempts, $7 segments, $8 counts, $9 from,
 * events that were read: $10 shards, $11 segments, $12 seqs, $13 ids; held events from $14; $22 the only server that
 * may answer
 */
export function ackSql(schema: string): string {
  return `
with n as materialized (
  select v.* from unnest($2::text::int4[], $3::text::int8[], $4::text::int8[], $5::text::int8[], $6::text::int4[],
                         $7::text::int4[], $8::text::int8[], $9::text::int8[])
         v(shard, cursor, token, trying_to, attempt, event_segment, counted, came_from)
    join ${schema}.shard s on s.destination = $1::text and s.shard = v.shard and s.token = v.token
   where ${isServer('$22')}
), m as materialized (
  select n.* from n
   where n.shard not in (select f.shard from n f where not ${reached(schema, 'f.shard', 'f.came_from')})
     and n.shard not in (
       select r.shard from unnest($10::text::int4[], $11::text::int4[], $12::text::int8[], $13::text::text[]) r(shard, segment, seq, id)
        where not ${isThere(schema, 'r')})
), a as (
  insert into ${schema}.ack (destination, shard, cursor, token, trying_to, attempt, event_segment, counted)
  select $1::text, m.shard, m.cursor, m.token, m.trying_to, m.attempt, m.event_segment, m.counted from m
  on conflict (destination, shard, cursor, token, segment) do update
     set trying_to = excluded.trying_to, attempt = excluded.attempt
   where (ack.trying_to, ack.attempt) is distinct from (excluded.trying_to, excluded.attempt)
), v as materialized (
  select v.* from ${heldRows(14)} where v.shard in (select m.shard from m)
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
