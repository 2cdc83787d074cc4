import { SHARDS } from '../../limits.ts'
import { NOW } from './migrations.ts'
import type { Turn } from './turn.ts'

// The event up to which every destination has acknowledged each shard. With one writer, no event can appear before a
// cursor, so nothing has to be counted.
const PASSED = `select d.shard, min(coalesce(a.cursor, 0)) as passed from effectively_once_shard d
  left join effectively_once_ack a on a.destination = d.destination and a.shard = d.shard group by d.shard`
const SENT = `select e.seq, e.created_at <= ${NOW} - ? as past from effectively_once_event e
  where e.shard = ? and e.seq <= ?
    and not exists (select 1 from effectively_once_held h where h.shard = e.shard and h.seq = e.seq)
  order by e.seq limit ?`
const FOLD = `insert into effectively_once_head (aggregateid, seq, id)
  select aggregateid, seq, id from effectively_once_event
  where seq in (select value from json_each(?)) and json_type(headers, '$.previous') is not null and shard < ${SHARDS} order by seq
  on conflict (aggregateid) do update set seq = excluded.seq, id = excluded.id where excluded.seq > seq`
const NAMESPACE_FOLD = `insert into effectively_once_namespace_head (shard, aggregateid, seq, id)
  select shard, aggregateid, seq, id from effectively_once_event
  where seq in (select value from json_each(?)) and json_type(headers, '$.previous') is not null and shard >= ${SHARDS} order by seq
  on conflict (shard, aggregateid) do update set seq = excluded.seq, id = excluded.id where excluded.seq > seq`
const FORGET = `delete from effectively_once_delayed where id in (
  select id from effectively_once_event where seq in (select value from json_each(?)))`
const REMOVE = 'delete from effectively_once_event where seq in (select value from json_each(?))'

/** Removes sent events, a few at a time. */
export function sweepEvents(turn: Turn, limit: number, resendForMs: number): number {
  const past: number[] = []
  for (const { shard, passed } of turn.all(PASSED)) {
    if (past.length >= limit) break
    const sent = turn.all(SENT, [resendForMs, Number(shard), Number(passed), limit - past.length])
    // The oldest events come first. After an event that is still within its time, the rest is, too.
    const within = sent.findIndex((row) => !row['past'])
    past.push(...(within < 0 ? sent : sent.slice(0, within)).map((row) => Number(row['seq'])))
  }
  if (past.length === 0) return 0
  const seqs = JSON.stringify(past)
  turn.run(FOLD, [seqs])
  turn.run(NAMESPACE_FOLD, [seqs])
  turn.run(FORGET, [seqs])
  return turn.run(REMOVE, [seqs])
}
