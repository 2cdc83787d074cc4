import { NOW } from './migrations.ts'
import type { Turn } from './turn.ts'

// Past its time, passed by every destination, held by none. With one writer a cursor passes nothing that could still
// appear, so there is nothing to count.
const SENT = `select e.seq from effectively_once_event e
  where e.created_at <= ${NOW} - ? and exists (select 1 from effectively_once_shard)
    and not exists (select 1 from effectively_once_shard d
      left join effectively_once_ack a on a.destination = d.destination and a.shard = d.shard
      where d.shard = e.shard and coalesce(a.cursor, 0) < e.seq)
    and not exists (select 1 from effectively_once_held h where h.shard = e.shard and h.seq = e.seq)
  order by e.seq limit ?`
const FOLD = `insert into effectively_once_head (aggregateid, seq, id)
  select aggregateid, seq, id from effectively_once_event
  where seq in (select value from json_each(?)) and json_type(headers, '$.previous') is not null order by seq
  on conflict (aggregateid) do update set seq = excluded.seq, id = excluded.id where excluded.seq > seq`
const REMOVE = 'delete from effectively_once_event where seq in (select value from json_each(?))'

/** Removes sent events, a few at a time. */
export function sweepEvents(turn: Turn, limit: number, resendForMs: number): number {
  const seqs = JSON.stringify(turn.all(SENT, [resendForMs, limit]).map((row) => Number(row['seq'])))
  turn.run(FOLD, [seqs])
  return turn.run(REMOVE, [seqs])
}
