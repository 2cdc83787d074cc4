import type { OutgoingEvent } from '../sink/sink.ts'
import type { HeldEvent, HoldParams, StoredEvent } from '../store/outbox.ts'
import { behind, dueNow } from './holding.ts'
import { HeaderReader, Outgoing } from './outgoing.ts'
import type { Shard } from './shard.ts'
import { attemptsOf } from './tries.ts'

/** If an event failed this often while other events were sent, the event is at fault and the sink works. */
const DOUBTED_MAX = 3

/** One event that a relay has read and not settled yet. */
export interface Item {
  readonly stored: StoredEvent
  readonly event: OutgoingEvent
  /** The lease under which it is sent. */
  readonly shard: Shard
  /** Set if the event was held before. */
  readonly held: HeldEvent | null
  /**
   * 'aside': the event is held from now on, as `hold` says. Without `hold`, it stays as it was. 'passed': the event is
   * neither sent nor held.
   */
  state: 'open' | 'underWay' | 'sent' | 'aside' | 'passed'
  hold: HoldParams | null
  /**
   * Set at the first failure that looked as if the sink were down. `sent`: how many events were sent by then. `times`:
   * how often the event failed while others were sent.
   */
  doubted: { sent: number; times: number } | null
}

export function itemOf(stored: StoredEvent, shard: Shard, event: OutgoingEvent): Item {
  return { stored, event, shard, held: null, state: 'open', hold: null, doubted: null }
}

export function heldItems(events: readonly HeldEvent[], shards: ReadonlyMap<number, Shard>, source: string): Item[] {
  const reader = new HeaderReader()
  return events.flatMap((held) => {
    const shard = shards.get(held.shard)
    if (!shard) return []
    const headers = reader.read(held.headers)
    const event = new Outgoing(held, headers, source, attemptsOf(held) + 1, held.resend, shard.timeline)
    return { stored: held, event, shard, held, state: 'open' as const, hold: null, doubted: null }
  })
}

export function isDecided({ state }: Item): boolean {
  return state === 'sent' || state === 'aside' || state === 'passed'
}

/**
 * Whether the event is at fault, although it failed as if the sink were down. If events come one at a time, no other
 * event is under way when one fails. So the events that were sent since its last failure decide.
 */
export function isToBlame(item: Item, sent: number): boolean {
  const { doubted } = item
  const times = doubted && sent > doubted.sent ? doubted.times + 1 : (doubted?.times ?? 0)
  item.doubted = { sent, times }
  return times >= DOUBTED_MAX
}

/** Other events were under way when the event failed. If one is sent before it fails again, the event is at fault. */
export function blameNext({ doubted }: Item): void {
  if (doubted) doubted.times = DOUBTED_MAX - 1
}

/**
 * For events that are sent alone: when a skipped event is written, the later events of its aggregate are written as
 * held.
 */
export function holdBehindSkipped(items: readonly Item[], skipped: ReadonlySet<Item>): void {
  const aggregates = new Set([...skipped].map(({ stored }) => stored.aggregateId))
  for (const item of items) {
    const { shard, stored, held, state } = item
    if (state !== 'open' || !aggregates.has(stored.aggregateId)) continue
    item.state = 'aside'
    if (held) continue
    item.hold = shard.blocked.has(stored.aggregateId) ? behind(stored, false) : dueNow(stored)
    shard.blocked.set(stored.aggregateId, false)
  }
}
