import type { StoredEvent } from '../outbox.ts'
import type { Row } from '../store.ts'

export const EVENT_COLUMNS =
  'e.shard, e.seq, e.id, e.aggregatetype, e.aggregateid, e.type, e.payload, e.headers, e.created_at'

export function eventOf(row: Row): StoredEvent {
  return {
    shard: Number(row['shard']),
    seq: Number(row['seq']),
    segment: 0,
    id: String(row['id']),
    aggregateType: String(row['aggregatetype']),
    aggregateId: String(row['aggregateid']),
    type: String(row['type']),
    payload: String(row['payload']),
    headers: String(row['headers']),
    at: Number(row['created_at']),
  }
}

/** The first of these events, up to about as many bytes of payload as the last value says, but at least one event. */
export function withinBytes(events: string): string {
  return `select * from (
    select e.*, sum(length(cast(e.payload as blob))) over (rows unbounded preceding) as end from (${events}) e)
   where end - length(cast(payload as blob)) < ?`
}
