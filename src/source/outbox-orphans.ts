import type { Shard } from '../outbox/shard.ts'
import type { HoldParams, Outbox } from '../store/outbox.ts'
import type { OutboxDelivery } from './outbox-delivery.ts'
import type { ShardWindow } from './outbox-window.ts'

export interface OrphansParts {
  readonly outbox: Outbox
  readonly destination: string
  readonly windows: ReadonlyMap<Shard, ShardWindow>
  /** Delayed events that are not written as held yet. */
  readonly holds: readonly HoldParams[]
}

/**
 * The deliveries whose predecessors this consumer never gets, because they were erased or dropped before it read them.
 * Every other predecessor is settled, is in a window, or is held.
 */
export async function orphansOf(
  { outbox, destination, windows, holds }: OrphansParts,
  deliveries: readonly OutboxDelivery[],
): Promise<readonly OutboxDelivery[]> {
  const unsettled = new Map([...windows].map(([shard, window]) => [shard, window.unsettled]))
  const apart = deliveries.filter(({ lease, previous, stored: { shard, seq, aggregateId } }) => {
    const ids = unsettled.get(lease)
    const isHeld = holds.some((of) => of.shard === shard && of.aggregateId === aggregateId && of.seq < seq)
    return ids !== undefined && previous !== null && !ids.has(previous) && !isHeld
  })
  if (apart.length === 0) return []
  const held = await outbox.heldBefore({ destination, events: apart.map(({ stored }) => stored) })
  return apart.filter(({ stored }) => !held.some(({ shard, seq }) => shard === stored.shard && seq === stored.seq))
}
