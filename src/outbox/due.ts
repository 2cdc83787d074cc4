import type { HeldEvent, HoldParams, SettleHeldParams } from '../store/outbox.ts'
import { parcelsOf } from './batch.ts'
import { Delivery } from './delivery.ts'
import { behind, failed } from './holding.ts'
import type { Keeper } from './keeper.ts'
import type { Ledger } from './ledger.ts'
import type { RelayParts } from './relay-parts.ts'
import type { Sender, SenderState } from './sender.ts'

const DUE_MS_MIN = 20

export interface DueSent {
  readonly sent: number
  readonly changed: readonly HoldParams[]
  readonly nextInMs: number | null
}

/** Sends held events whose time has come, each aggregate's in order; what fails again waits longer, or is given up. */
export async function sendDue(
  parts: RelayParts,
  keeper: Keeper,
  sender: Sender,
  ledger: Ledger,
  state: SenderState,
  limits: { readonly limit: number; readonly behind: number },
): Promise<DueSent> {
  const destination = parts.sink.name
  const shards = [...keeper.shards.values()].filter(({ suspect }) => suspect === null).map(({ shard }) => shard)
  const due = await parts.outbox.due({ destination, shards, ...limits })
  if (due.events.length === 0) {
    // Never at once: what is due but cannot be read must not make us ask for ever.
    return { sent: 0, changed: [], nextInMs: due.nextInMs === null ? null : Math.max(due.nextInMs, DUE_MS_MIN) }
  }
  const events = due.events.filter(({ shard }) => keeper.shards.has(shard))
  const late = events.filter((event) => event.state === 'delayed' && isBlocked(keeper, event))
  const ready = events.filter((event) => !late.includes(event))
  const delivery = new Delivery(parts.sink, parcelsOf(ready, parts.source))
  if ((await sender.deliver(delivery, state)) !== 'done') return { sent: 0, changed: [], nextInMs: 0 }
  const settled = outcome(parts, ready, delivery)
  const changed = [...settled.changed, ...late.map((event) => behind(event, parkedIn(keeper, event)))]
  const touched = [...new Map(events.map(({ shard, aggregateId }) => [aggregateId, { shard, aggregateId }])).values()]
  const leases = [...keeper.shards.values()]
  const blocked = await ledger.settle({ destination, leases, ...settled, changed, touched })
  for (const { shard, aggregateId } of touched) keeper.shards.get(shard)?.blocked.delete(aggregateId)
  for (const { shard, aggregateId, parked } of blocked) keeper.shards.get(shard)?.blocked.set(aggregateId, parked)
  return { sent: delivery.sent, changed, nextInMs: 0 }
}

function outcome(
  parts: RelayParts,
  events: readonly HeldEvent[],
  delivery: Delivery,
): Pick<SettleHeldParams, 'sent' | 'changed' | 'park'> {
  const sent: HeldEvent[] = []
  const changed: HoldParams[] = []
  const park: { shard: number; aggregateId: string }[] = []
  for (const [index, event] of events.entries()) {
    const fate = delivery.fates[index]
    if (fate === 'sent') sent.push(event)
    // A delayed one that came behind a failure waits in line from now on.
    else if (fate === 'behind' && event.state === 'delayed') changed.push(behind(event, false))
    else if (typeof fate === 'object') {
      const held = failed(parts, event, fate, event.attempts + 1)
      changed.push(held)
      if (held.state === 'parked') park.push({ shard: event.shard, aggregateId: event.aggregateId })
    }
  }
  return { sent, changed, park }
}

function isBlocked(keeper: Keeper, { shard, aggregateId }: HeldEvent): boolean {
  return keeper.shards.get(shard)?.blocked.has(aggregateId) === true
}

function parkedIn(keeper: Keeper, { shard, aggregateId }: HeldEvent): boolean {
  return keeper.shards.get(shard)?.blocked.get(aggregateId) === true
}
