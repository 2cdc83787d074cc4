import type { Ack, StoredEvent } from '../store/outbox.ts'
import { behind, delayed, notBeforeOf } from './holding.ts'
import { itemOf, type Item } from './item.ts'
import { HeaderReader, Outgoing } from './outgoing.ts'
import type { RelayParts } from './relay-parts.ts'
import type { Shard } from './shard.ts'

/** What was read in one go, behind the cursors of its shards. */
export interface Batch {
  readonly events: readonly StoredEvent[]
  /** Where each shard's events end, once for each segment they are in. */
  readonly ends: ReadonlyMap<Shard, readonly End[]>
}

/** The last of some events of one shard and segment, and how many they are. */
export interface End {
  readonly segment: number
  seq: number
  /** Of that last event. */
  id: string
  events: number
}

export function endOf(ends: readonly End[] | undefined): number | null {
  return ends?.at(-1)?.seq ?? null
}

/** Sets aside what may not be sent now: events of blocked aggregates, and those whose time has not come. */
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
    if (!wants(stored.type)) {
      item.state = 'passed'
      continue
    }
    const parked = shard.blocked.size > 0 ? shard.blocked.get(stored.aggregateId) : undefined
    const notBefore = headers['notbefore'] === undefined ? undefined : notBeforeOf(headers)
    // Not in line, where it would be sent with the others: whoever finds it due sees whether it must wait behind them.
    if (notBefore !== undefined) item.hold = delayed(stored, notBefore)
    else if (parked !== undefined) item.hold = behind(stored, parked)
    if (item.hold) item.state = 'aside'
  }
  return items
}

/** The cursors behind some events of a shard, with what each segment counts then. */
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
