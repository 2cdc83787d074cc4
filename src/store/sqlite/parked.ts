import { parkedLineOf, parkedOf } from '../sql/parked-rows.ts'
import type { Parked, SettledParked, SettleParkedParams } from '../parked.ts'
import { promote, unparkOrphans } from './held.ts'
import type { Reader } from './reader.ts'
import type { Turn } from './turn.ts'
import type { Writer } from './writer.ts'

const LIST = `select h.shard, h.seq, e.id, h.aggregateid, e.type, h.attempts, h.reason,
    e.created_at as published_at, h.held_at
  from effectively_once_held h join effectively_once_event e on e.seq = h.seq
  where h.destination = ?1 and h.state = 3 and (?2 is null or h.aggregateid = ?2) and (?3 is null or e.id = ?3) and h.seq > ?4
  order by h.seq limit ?5`
const LINES = `select shard, aggregateid, min(case when reason is not null then seq end) as head from effectively_once_held
  where destination = ?1 and state = 3 and (?2 is null or aggregateid = ?2) and (shard, aggregateid) > (?3, ?4)
  group by shard, aggregateid order by shard, aggregateid limit ?5`
const RELEASE = `update effectively_once_held set state = 1, attempts = 0, tried = 0, due_at = null, reason = null
  where destination = ? and shard = ? and aggregateid = ? and state = 3 and reason is not null`
const SKIP = `update effectively_once_held set state = 4, due_at = null
  where destination = ? and shard = ? and seq = ? and state = 3`

/** Parked events on SQLite. Every change is a turn of the one writer. */
export function sqliteParked({ writer, reader }: { writer: Writer; reader: Reader }): Parked {
  return {
    list: async ({ destination, aggregateId, id, after, limit }) =>
      (await reader.all(LIST, [destination, aggregateId, id, after, limit])).map(parkedOf),
    async lines({ destination, aggregateId, after, limit }) {
      const from = [after?.shard ?? -1, after?.aggregateId ?? '']
      const rows = await reader.all(LINES, [destination, aggregateId, ...from, limit])
      return rows.map(parkedLineOf)
    },
    settle: (params) => writer.write((turn) => settle(turn, params)),
  }
}

function settle(turn: Turn, params: SettleParkedParams): SettledParked {
  const { destination, shard, aggregateIds, release, skip, limit } = params
  let skipped = 0
  let released = 0
  let orphans = 0
  for (const seq of skip) skipped += turn.run(SKIP, [destination, shard, seq])
  for (const aggregateId of aggregateIds) {
    if (release) released += turn.run(RELEASE, [destination, shard, aggregateId])
    orphans += unparkOrphans(turn, destination, { shard, aggregateId }, limit - orphans)
    promote(turn, destination, { shard, aggregateId })
  }
  return { released: released + orphans, skipped, more: orphans === limit }
}
