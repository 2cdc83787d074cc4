import { SHARDS } from '../../limits.ts'
import { isOrdered } from '../ordered.ts'
import type { EventRow } from '../store.ts'
import { NOW } from './migrations.ts'
import type { Turn } from './turn.ts'

const PREVIOUS = `select id from effectively_once_event where aggregateid = ? and json_type(headers, '$.previous') is not null
  and shard = ? order by seq desc limit 1`
const HEAD = 'select id from effectively_once_head where aggregateid = ?'
const NAMESPACE_HEAD = 'select id from effectively_once_namespace_head where aggregateid = ? and shard = ?'

const INSERT = `insert into effectively_once_event
  (shard, id, aggregatetype, aggregateid, type, payload, headers, created_at) values (?, ?, ?, ?, ?, ?, ?, ${NOW})`

/** With one writer, the order of `seq` is the order of the commits. */
export function appendEvents(turn: Turn, events: readonly EventRow[]): void {
  for (const event of events) {
    const { shard, id, aggregateType, aggregateId, type, payload, headers } = event
    const ordered = isOrdered(event) ? chained(turn, event) : headers
    turn.run(INSERT, [shard, id, aggregateType, aggregateId, type, payload, ordered])
  }
}

/** Ordered events carry the id of their predecessor. */
function chained(turn: Turn, { aggregateId, shard, headers }: EventRow): string {
  const parsed = JSON.parse(headers) as Record<string, unknown>
  if (!Object.hasOwn(parsed, 'previous')) return headers
  const gone = shard < SHARDS ? turn.all(HEAD, [aggregateId]) : turn.all(NAMESPACE_HEAD, [aggregateId, shard])
  const [row] = [...turn.all(PREVIOUS, [aggregateId, shard]), ...gone]
  return JSON.stringify({ ...parsed, previous: row?.['id'] ?? null })
}
