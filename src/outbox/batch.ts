import type { Sink } from '../sink/sink.ts'
import type { Ack, BlockedAggregate, HeldEvent, HoldParams, StoredEvent } from '../store/outbox.ts'
import { Delivery, type Parcel } from './delivery.ts'
import { behind, delayed, dueNow, failed, notBeforeOf } from './holding.ts'
import { HeaderReader, Outgoing } from './outgoing.ts'
import type { RelayParts } from './relay-parts.ts'
import type { Shard } from './shard.ts'
import { attemptsOf } from './tries.ts'

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
  events: number
}

export interface Sorted {
  readonly delivery: Delivery
  readonly held: readonly HoldParams[]
}

export function parcelsOf(events: readonly HeldEvent[], source: string): Parcel[] {
  const reader = new HeaderReader()
  return events.map((stored) => ({
    stored,
    event: new Outgoing(stored, reader.read(stored.headers), source, attemptsOf(stored) + 1, stored.resend),
  }))
}

export function endOf(ends: readonly End[] | undefined): number | null {
  return ends?.at(-1)?.seq ?? null
}

/** Sets aside what may not be sent now: events of blocked aggregates, and those whose time has not come. */
export function sort(batch: Batch, shards: ReadonlyMap<number, Shard>, sink: Sink, source: string): Sorted {
  const reader = new HeaderReader()
  const held: HoldParams[] = []
  const parcels: Parcel[] = []
  for (const stored of batch.events) {
    const blocked = shards.get(stored.shard)?.blocked
    const parked = blocked?.size ? blocked.get(stored.aggregateId) : undefined
    if (parked !== undefined) {
      held.push(behind(stored, parked))
      continue
    }
    const headers = reader.read(stored.headers)
    const notBefore = headers['notbefore'] === undefined ? undefined : notBeforeOf(headers)
    if (notBefore === undefined) parcels.push({ stored, event: new Outgoing(stored, headers, source, 1) })
    else held.push(delayed(stored, notBefore))
  }
  return { delivery: new Delivery(sink, parcels), held }
}

/** What of a delivery must be held, and which aggregates are blocked from now on. */
export function remains(parts: RelayParts, delivery: Delivery): { hold: HoldParams[]; blocks: BlockedAggregate[] } {
  const hold: HoldParams[] = []
  const blocks = new Map<string, BlockedAggregate>()
  const skipped = new Set<string>()
  for (const [index, { stored }] of delivery.parcels.entries()) {
    const fate = delivery.fates[index]
    if (fate === 'sent' || fate === undefined) continue
    const { shard, aggregateId } = stored
    if (fate === 'behind') {
      // Behind a skipped one the next is due at once; the rest queues behind it.
      hold.push(skipped.delete(aggregateId) ? dueNow(stored) : behind(stored, blocks.get(aggregateId)?.parked === true))
      if (!blocks.has(aggregateId)) blocks.set(aggregateId, { shard, aggregateId, parked: false })
      continue
    }
    const held = failed(parts, stored, fate, 1)
    hold.push(held)
    if (held.state === 'skipped') skipped.add(aggregateId)
    else blocks.set(aggregateId, { shard, aggregateId, parked: held.state === 'parked' })
  }
  return { hold, blocks: [...blocks.values()] }
}

/** Cursors of a batch, each with the intent of the batch after it. */
export function acksOf(batch: Batch, next: Batch | null): Ack[] {
  return [...batch.ends].flatMap(([shard, ends]) => {
    const tryingTo = endOf(next?.ends.get(shard))
    return passedBy(shard, ends, { tryingTo, attempt: tryingTo === null ? 0 : 1 })
  })
}

/** The cursors behind some events of a shard, with what each segment counts then. */
export function passedBy(shard: Shard, ends: readonly End[], following: Pick<Ack, 'tryingTo' | 'attempt'>): Ack[] {
  return ends.map(({ segment, seq, events }) => ({
    shard: shard.shard,
    token: shard.token,
    cursor: seq,
    segment,
    counted: events + (segment === shard.segment ? shard.counted : 0),
    ...following,
  }))
}
