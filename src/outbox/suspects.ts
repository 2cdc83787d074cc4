import { RELAY_DEATHS_MAX, RELAY_SUSPECT_EVENTS } from '../limits.ts'
import { endOf, passedBy, sort, type Batch, type End } from './batch.ts'
import type { Ack, HoldParams } from '../store/outbox.ts'
import { failed } from './holding.ts'
import type { ShardLeases } from './shard-leases.ts'
import { intent, type Ledger, type Written } from './ledger.ts'
import type { Asked, Reading } from './reading.ts'
import type { RelayParts } from './relay-parts.ts'
import type { Sender } from './sender.ts'
import type { Shard } from './shard.ts'

/** How often events are sent beside those of other shards before they are suspected. */
const AMONG_ALL = 2

/** The parts of the loop that trying a suspect needs. */
export interface Tools {
  readonly parts: RelayParts
  readonly shardLeases: ShardLeases
  readonly reading: Reading
  readonly sender: Sender
  readonly ledger: Ledger
  /** Waits until something changes, but not for long. */
  readonly wait: () => Promise<unknown>
}

/** The suspect shard with the fewest attempts, so that innocent events are cleared before the culprit is tried again. */
export function suspectOf({ shards }: ShardLeases): Shard | undefined {
  let found: Shard | undefined
  for (const shard of shards.values()) {
    if (shard.leaving) continue
    if (shard.suspect && shard.suspect.attempt < (found?.suspect?.attempt ?? Infinity)) found = shard
  }
  return found
}

/**
 * Events that were in flight when a relay died may have killed it. After a second death, they are sent apart from all
 * others, in halves. Each half is announced, so each death leaves half of the suspects. An event is given up if it was
 * alone at the last death that it may cause. False: the events were not sent.
 */
export async function trySuspect(shard: Shard, tools: Tools): Promise<boolean> {
  const { parts, reading } = tools
  const { upTo, attempt } = shard.suspect as NonNullable<Shard['suspect']>
  if (attempt < AMONG_ALL) return absolve(tools)
  shard.rewind()
  const { events } = await reading.read(firstOf(shard, RELAY_SUSPECT_EVENTS))
  const suspects = events.filter(({ seq }) => seq <= upTo).length
  shard.rewind()
  const part = suspects === 0 ? undefined : await reading.read(firstOf(shard, Math.ceil(suspects / 2)))
  const end = endOf(part?.ends.get(shard))
  if (part === undefined || end === null) {
    shard.suspect = null
    return true
  }
  const alone = suspects === 1 && attempt > AMONG_ALL
  const culprit = alone && attempt >= Math.min(parts.attempts, RELAY_DEATHS_MAX) && parts.onFailure !== 'block'
  const blocked = [...shard.blocked]
  let done = false
  try {
    done = culprit ? await giveUp(shard, part, tools) : await sendPart(shard, part, tools)
  } finally {
    // The failure is not written. If the event counted as held, no relay would ever send it.
    if (!done) shard.block(blocked)
  }
  if (!done) return false
  shard.fresh = false
  shard.suspect = end < upTo ? { upTo, attempt: AMONG_ALL } : null
  return true
}

function firstOf(shard: Shard, events: number): Asked {
  return { from: [shard], perShard: events, limit: events }
}

/**
 * Most relays die for other reasons, and leave many events. A slow sink would take much longer to send them one by one.
 * So after a first death, all events are sent as usual, but announced as tried before.
 */
async function absolve({ shardLeases, ledger }: Tools): Promise<boolean> {
  const tried = [...shardLeases.shards.values()].flatMap((shard) =>
    shard.suspect && shard.suspect.attempt < AMONG_ALL ? { shard, tryingTo: shard.suspect.upTo } : [],
  )
  const acks = tried.map(({ shard, tryingTo }) => intent(shard, tryingTo, AMONG_ALL))
  const { ours } = await ledger.ack(acks, [])
  for (const { shard, tryingTo } of tried.filter((of) => ours.has(of.shard.shard))) {
    shard.announced = { tryingTo, attempt: AMONG_ALL }
    shard.fresh = false
    shard.suspect = null
  }
  return true
}

async function sendPart(
  shard: Shard,
  part: Batch,
  { parts, shardLeases, sender, ledger, wait }: Tools,
): Promise<boolean> {
  const { upTo, attempt } = shard.suspect as NonNullable<Shard['suspect']>
  const ends = part.ends.get(shard) ?? []
  const end = endOf(ends) ?? 0
  const announced = await ledger.ack([intent(shard, end, attempt + 1)], [])
  if (!announced.ours.has(shard.shard)) return false
  const items = sort(part, shardLeases.shards, parts)
  const open = items.filter(({ state }) => state === 'open')
  if (!(await sender.alone(open, wait))) return false
  const held = items.flatMap(({ hold }) => hold ?? [])
  // The other events stay suspect. Their attempts are counted again, because they were never sent without these.
  const following = end < upTo ? { tryingTo: upTo, attempt: AMONG_ALL } : { tryingTo: null, attempt: 0 }
  const written = await pass(shard, ends, following, held, ledger)
  ledger.tell(items.filter(({ state }) => state === 'sent').length, held, written.parked)
  return written.ours.has(shard.shard)
}

async function giveUp(shard: Shard, part: Batch, { parts, shardLeases, ledger }: Tools): Promise<boolean> {
  const { attempt } = shard.suspect as NonNullable<Shard['suspect']>
  const error = new Error(`${attempt} relays ended while they sent this event`)
  // An event behind a parked one is parked too. An event that is not due yet was not sent, so it killed no relay.
  const held = sort(part, shardLeases.shards, parts).flatMap(({ stored, state, hold }) =>
    state === 'open' ? failed(parts, stored, { error, retryable: false }, attempt) : (hold ?? []),
  )
  const written = await pass(shard, part.ends.get(shard) ?? [], { tryingTo: null, attempt: 0 }, held, ledger)
  if (!written.ours.has(shard.shard)) return false
  for (const { aggregateId, state } of held) if (state === 'parked') shard.blocked.set(aggregateId, true)
  ledger.tell(0, held, written.parked)
  return true
}

/** Moves the cursor past these events, unless the shard is no longer ours. */
async function pass(
  shard: Shard,
  ends: readonly End[],
  following: Pick<Ack, 'tryingTo' | 'attempt'>,
  held: readonly HoldParams[],
  ledger: Ledger,
): Promise<Written> {
  const acks = passedBy(shard, ends, following)
  const written = await ledger.ack(acks, held)
  if (written.ours.has(shard.shard)) for (const ack of acks) shard.advance(ack)
  return written
}
