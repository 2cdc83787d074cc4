import { isErasedEvent } from '../store/erasure.ts'
import type { Ack, StoredEvent } from '../store/outbox.ts'
import { behind, delayed, notBeforeOf } from './holding.ts'
import { itemOf, type Item } from './item.ts'
import { HeaderReader, Outgoing } from './outgoing.ts'
import type { RelayParts } from './relay-parts.ts'
import type { Shard } from './shard.ts'

/** The events of one read, after the cursors of their shards. */
export interface Batch {
  readonly events: readonly StoredEvent[]
  /** The last event of each shard, once for each segment. */
  readonly ends: ReadonlyMap<Shard, readonly End[]>
}

/** The last of several events of one shard and segment, and their number. */
export interface End {
  readonly segment: number
  seq: number
  /** The id of that last event. */
  id: string
  events: number
}

export function endOf(ends: readonly End[] | undefined): number | null {
  return ends?.at(-1)?.seq ?? null
}

/** Sets aside events that may not be sent now: events of blocked aggregates, and delayed events. */
export function sort(
  { events }: Batch,
  shards: ReadonlyMap<number, Shard>,
  { source, wants }: Pick<RelayParts, 'source' | 'wants'>,
): Item[] {
  const reader = new HeaderReader()
  const items: Item[] = []
  for (const stored of events) {
    const shard = shards.get(stored.shard)
    if (!shard) continue
    const headers = reader.read(stored.headers)
    const item = itemOf(stored, shard, new Outgoing(stored, headers, source, 1, 0, shard.timeline))
    items.push(item)
    if (!wants(stored.type) || isErasedEvent(stored)) {
      item.state = 'passed'
      continue
    }
    const parked = shard.blocked.size > 0 ? shard.blocked.get(stored.aggregateId) : undefined
    const notBefore = headers['notbefore'] === undefined ? undefined : notBeforeOf(headers)
    // It is not put in line, where it would be sent with the others. When it is due, the relay decides.
    if (notBefore !== undefined) item.hold = delayed(stored, notBefore)
    else if (parked !== undefined) item.hold = behind(stored, parked)
    if (item.hold) item.state = 'aside'
  }
  return items
}

/** The cursors after several events of a shard, with the number of passed events in each segment. */
export function passedBy(shard: Shard, ends: readonly End[], following: Pick<Ack, 'tryingTo' | 'attempt'>): Ack[] {
  const last = ends.at(-1)
  return ends.map((end) => ({
    shard: shard.shard,
    token: shard.token,
    cursor: end.seq,
    segment: end.segment,
    counted: end.events + (end.segment === shard.segment ? shard.counted : 0),
    ...following,
    from: shard.cursor,
    seen: end === last ? shard.seenWith(end) : [],
  }))
}
