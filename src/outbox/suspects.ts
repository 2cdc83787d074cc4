import { RELAY_SUSPECT_EVENTS } from '../limits.ts'
import { endOf, passedBy, remains, sort, type Batch, type End } from './batch.ts'
import type { Ack, HoldParams } from '../store/outbox.ts'
import { failed } from './holding.ts'
import type { Keeper } from './keeper.ts'
import { intent, type Ledger, type Written } from './ledger.ts'
import type { LoopState } from './loop-state.ts'
import type { Reading } from './reading.ts'
import type { RelayParts } from './relay-parts.ts'
import type { Sender } from './sender.ts'
import type { Shard } from './shard.ts'

/** What the steps of the loop share. */
export interface Tools {
  readonly parts: RelayParts
  readonly keeper: Keeper
  readonly reading: Reading
  readonly sender: Sender
  readonly ledger: Ledger
  readonly state: LoopState
}

/** The one that was tried least: whoever is innocent is cleared before the culprit is tried again. */
export function suspectOf({ shards }: Keeper): Shard | undefined {
  let found: Shard | undefined
  for (const shard of shards.values()) {
    if (shard.suspect && shard.suspect.attempt < (found?.suspect?.attempt ?? Infinity)) found = shard
  }
  return found
}

/**
 * What was under way when a relay died may have killed it. It is sent apart from everything else, in halves that are
 * announced as such, so that each death leaves half of them; and given up when an event was alone at the last of as many
 * deaths as it may cause. False: it was not sent.
 */
export async function trySuspect(shard: Shard, tools: Tools): Promise<boolean> {
  const { parts, reading } = tools
  const { upTo, attempt } = shard.suspect as NonNullable<Shard['suspect']>
  shard.rewind()
  const { events } = await reading.part(shard, RELAY_SUSPECT_EVENTS)
  const suspects = events.filter(({ seq }) => seq <= upTo).length
  shard.rewind()
  const part = suspects === 0 ? undefined : await reading.part(shard, Math.ceil(suspects / 2))
  const end = endOf(part?.ends.get(shard))
  if (part === undefined || end === null) {
    shard.suspect = null
    return true
  }
  // The first time it was under way with events of other shards.
  const alone = suspects === 1 && attempt > 1
  const culprit = alone && attempt >= parts.attempts && parts.onFailure !== 'block'
  const done = culprit ? await giveUp(shard, part, tools) : await sendPart(shard, part, tools)
  if (!done) return false
  shard.fresh = false
  shard.suspect = end < upTo ? { upTo, attempt: 1 } : null
  return true
}

async function sendPart(shard: Shard, part: Batch, { parts, keeper, sender, ledger, state }: Tools): Promise<boolean> {
  const { upTo, attempt } = shard.suspect as NonNullable<Shard['suspect']>
  const ends = part.ends.get(shard) ?? []
  const end = endOf(ends) ?? 0
  const announced = await ledger.ack([intent(shard, end, attempt + 1)], [])
  if (!announced.ours.has(shard.shard)) return false
  const sorted = sort(part, keeper.shards, parts.sink, parts.source)
  if ((await sender.deliver(sorted.delivery, state)) !== 'done') return false
  const { hold, blocks } = remains(parts, sorted.delivery)
  const held = [...sorted.held, ...hold]
  // The rest of what was under way stays suspect. It is counted anew: it was never sent without these.
  const following = end < upTo ? { tryingTo: upTo, attempt: 1 } : { tryingTo: null, attempt: 0 }
  const written = await pass(shard, ends, following, held, ledger)
  ledger.tell(sorted.delivery.sent, held, written.parked)
  if (!written.ours.has(shard.shard)) return false
  for (const { aggregateId, parked } of blocks) shard.blocked.set(aggregateId, parked)
  return true
}

async function giveUp(shard: Shard, { events, ends }: Batch, { parts, ledger }: Tools): Promise<boolean> {
  const { attempt } = shard.suspect as NonNullable<Shard['suspect']>
  const error = new Error(`${attempt} relays ended while they sent this event`)
  // An event behind a parked one is parked with it, whoever it would have killed.
  const held = events.map((stored) => failed(parts, stored, { error, retryable: false }, attempt))
  const written = await pass(shard, ends.get(shard) ?? [], { tryingTo: null, attempt: 0 }, held, ledger)
  if (!written.ours.has(shard.shard)) return false
  for (const { aggregateId, state } of held) if (state === 'parked') shard.blocked.set(aggregateId, true)
  ledger.tell(0, held, written.parked)
  return true
}

/** Moves the cursor behind a part, unless the shard is no longer ours. */
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
