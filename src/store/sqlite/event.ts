import type { EventRow } from '../store.ts'
import { NOW } from './migrations.ts'
import type { Turn } from './turn.ts'

const INSERT = `insert into effectively_once_event
  (shard, id, aggregatetype, aggregateid, type, payload, headers, created_at) values (?, ?, ?, ?, ?, ?, ?, ${NOW})`

/** One writer: the order of `seq` is the order of commits. */
export function appendEvents(turn: Turn, events: readonly EventRow[]): void {
  for (const { shard, id, aggregateType, aggregateId, type, payload, headers } of events) {
    turn.run(INSERT, [shard, id, aggregateType, aggregateId, type, payload, headers])
  }
}
