import type { HeldEvent, HoldParams, SettleHeldParams } from '../store/outbox.ts'
import { backoffMs } from './backoff.ts'
import { parcelsOf } from './batch.ts'
import { Delivery } from './delivery.ts'
import { behind, failed } from './holding.ts'
import type { Tools } from './suspects.ts'
import { attemptsOf, culprit, partOf } from './tries.ts'

const DUE_MS_MIN = 20

type Outcome = Pick<SettleHeldParams, 'sent' | 'changed' | 'kept' | 'park'>

/**
 * Sends held events whose time has come, each aggregate's in order; what fails again waits longer, or is given up.
 * Answers when to look again; null: nobody knows.
 */
export async function sendDue(
  tools: Tools,
  limits: { readonly limit: number; readonly behind: number },
): Promise<number | null> {
  const { parts, keeper } = tools
  const destination = parts.sink.name
  const shards = [...keeper.shards.values()].filter(({ suspect }) => suspect === null).map(({ shard }) => shard)
  const due = await parts.outbox.due({ destination, shards, ...limits })
  // Never at once: what is due but cannot be read must not make us ask for ever.
  if (due.events.length === 0) return due.nextInMs === null ? null : Math.max(due.nextInMs, DUE_MS_MIN)
  const events = due.events.filter(({ shard }) => keeper.shards.has(shard))
  const late = events.filter((event) => event.state === 'delayed' && isBlocked(tools, event))
  const changed = late.map((event) => behind(event, parkedIn(tools, event)))
  const part = partOf(events.filter((event) => !late.includes(event)))
  const given = part.flatMap((event) => culprit(parts, event) ?? [])
  if (given.length > 0) {
    const park = given.filter(({ state }) => state === 'parked')
    await settle(tools, [...late, ...part], { sent: [], changed: [...changed, ...given], kept: [], park }, 0)
    return 0
  }
  const ready = part.length === 0 ? [] : await announce(tools, part)
  const delivery = new Delivery(parts.sink, parcelsOf(ready, parts.source))
  try {
    await tools.sender.deliver(delivery, tools.state)
  } finally {
    // Whatever was decided before it was told to stop is written; the rest is as it was.
    const outcome = outcomeOf(tools, ready, delivery)
    await settle(tools, [...late, ...ready], { ...outcome, changed: [...changed, ...outcome.changed] }, delivery.sent)
  }
  return 0
}

/** Counted before they are sent: should they kill this relay, the next one knows. */
async function announce({ parts, keeper, ledger }: Tools, part: readonly HeldEvent[]): Promise<readonly HeldEvent[]> {
  const numbers = new Set(part.map(({ shard }) => shard))
  const leases = [...keeper.shards.values()].filter(({ shard }) => numbers.has(shard))
  const events = part.map((event) => {
    const tried = event.tried + 1
    // Whoever takes over gets some work done before it is tried again.
    return { shard: event.shard, seq: event.seq, tried, dueInMs: tried > 2 ? backoffMs(parts.random, tried) : null }
  })
  const ours = await ledger.announce({ destination: parts.sink.name, leases, events })
  return part.filter(({ shard }) => ours.has(shard))
}

async function settle(tools: Tools, events: readonly HeldEvent[], outcome: Outcome, sent: number): Promise<void> {
  if (events.length === 0) return
  const { parts, keeper, ledger } = tools
  const touched = [...new Map(events.map(({ shard, aggregateId }) => [aggregateId, { shard, aggregateId }])).values()]
  const leases = [...keeper.shards.values()]
  const { parked, blocked } = await ledger.settle({ destination: parts.sink.name, leases, ...outcome, touched })
  for (const { shard, aggregateId } of touched) keeper.shards.get(shard)?.blocked.delete(aggregateId)
  for (const of of blocked) keeper.shards.get(of.shard)?.blocked.set(of.aggregateId, of.parked)
  ledger.tell(sent, outcome.changed, parked)
}

function outcomeOf({ parts }: Tools, events: readonly HeldEvent[], { fates }: Delivery): Outcome {
  const sent: HeldEvent[] = []
  const kept: HeldEvent[] = []
  const changed: HoldParams[] = []
  const park: { shard: number; aggregateId: string }[] = []
  for (const [index, event] of events.entries()) {
    const fate = fates[index]
    if (fate === 'sent') sent.push(event)
    // A delayed one that came behind a failure waits in line from now on.
    else if (fate === 'behind' && event.state === 'delayed') changed.push(behind(event, false))
    else if (typeof fate === 'object') {
      const held = failed(parts, event, fate, attemptsOf(event) + 1)
      changed.push(held)
      if (held.state === 'parked') park.push({ shard: event.shard, aggregateId: event.aggregateId })
    } else kept.push(event)
  }
  return { sent, changed, kept, park }
}

function isBlocked({ keeper }: Tools, { shard, aggregateId }: HeldEvent): boolean {
  return keeper.shards.get(shard)?.blocked.has(aggregateId) === true
}

function parkedIn({ keeper }: Tools, { shard, aggregateId }: HeldEvent): boolean {
  return keeper.shards.get(shard)?.blocked.get(aggregateId) === true
}
