import type { Arrival } from './inbox/arrival.ts'
import { describeError } from '../platform/describe-error.ts'
import { letterOf } from './inbox/letter.ts'
import type { Letter, LetterReason } from '../store/dead-letters.ts'
import { processBatch } from './batch.ts'
import { isApplied, type Fate, type Fates } from './fate.ts'
import { processLeased } from './leased.ts'
import { notBehind } from './lanes.ts'
import { deliveriesOf, positionsAfter, type ConsumerParts } from './parts.ts'
import { isStoreTrouble } from './store-trouble.ts'
import { isFinal } from '../operation/final.ts'
import type { Tries } from '../store/inbox.ts'
import type { ConsumerSettings } from './options.ts'

/** Runs one batch, from its delivery to the fates of its messages. Never throws because of a message. */
export async function workOn<Tx>(parts: ConsumerParts<Tx>, batch: readonly Arrival[]): Promise<Fates> {
  const fates: Fates = new Map()
  const park = new Map<Arrival, Why>()
  const run: Arrival[] = []
  for (const arrival of batch) {
    const { problem } = arrival
    const { type } = arrival.delivery
    if (problem !== undefined) park.set(arrival, { reason: 'unreadable', error: new Unreadable(problem) })
    else if (!parts.settings.handlers.has(type) && !(await leavesRow(parts, arrival, park, fates))) continue
    else run.push(arrival)
  }
  try {
    const ready = waitingBehind(batch, await counted(parts, run, park, fates), park, fates)
    for (const [arrival, fate] of await attempt(parts, ready)) await judge(parts, arrival, fate, park, fates)
    await letWait(parts, park, fates)
    await parkMessages(parts, inOrder(batch, park, fates), fates)
  } catch (error) {
    // The store is in trouble: undecided messages are tried again, and lose no attempt.
    for (const arrival of batch) if (!fates.has(arrival)) fates.set(arrival, { kind: 'troubled', error })
  }
  return fates
}

interface Why {
  readonly reason: LetterReason
  readonly error: unknown
}

class Unreadable extends Error {
  override readonly name: string = 'Unreadable'
}
class UnknownType extends Error {
  override readonly name: string = 'UnknownType'
}
class Quarantined extends Error {
  override readonly name: string = 'Quarantined'
}
class Behind extends Error {
  override readonly name: string = 'Behind'
}
class Orphaned extends Error {
  override readonly name: string = 'Orphaned'
}

/**
 * A message of a type without a handler is parked or ignored. If successors wait for its inbox row, it runs without a
 * handler.
 */
async function leavesRow<Tx>(
  { settings }: ConsumerParts<Tx>,
  arrival: Arrival,
  park: Map<Arrival, Why>,
  fates: Fates,
): Promise<boolean> {
  const { type, ordered = arrival.item.aggregate !== null } = arrival.delivery
  if (!settings.ignores(type)) {
    park.set(arrival, { reason: 'unknownType', error: new UnknownType(`no handler for '${type.slice(0, 80)}'`) })
    return false
  }
  if (ordered && settings.delivery === 'once') return true
  fates.set(arrival, { kind: 'passed' })
  return false
}

/**
 * Attempts of redelivered messages are committed before they run, so that a crash is counted. Messages that were
 * running at a crash run apart from the others. They run alone if a second process died, or if it could be their last
 * attempt: no message may be parked because of another one. After the last attempt they do not run at all.
 */
async function counted<Tx>(
  { inbox, settings }: ConsumerParts<Tx>,
  arrivals: readonly Arrival[],
  park: Map<Arrival, Why>,
  fates: Fates,
): Promise<Arrival[]> {
  // An attempt that this process counted and did not finish is still the same attempt.
  const again = arrivals.filter((arrival) => (arrival.delivery.redelivered || arrival.suspect) && !arrival.counted)
  if (again.length === 0 || settings.delivery !== 'once') return [...arrivals]
  const consumer = settings.name
  const states = await inbox.look({ consumer, items: again.map(({ item }) => item) })
  const open = again.filter((_, i) => states[i] === 'taken')
  const known = new Map((await inbox.tries({ consumer, ids: open.map(({ item }) => item.id) })).map((t) => [t.id, t]))
  const held = new Set<Arrival>()
  for (const arrival of open) {
    const tries = known.get(arrival.item.id)
    if (!tries) continue
    arrival.tried = true
    arrival.attempts = tries.attempts
    const { suspect: wasSuspect, alone: wasAlone } = arrival
    arrival.suspect = tries.unfinished > 0
    if (tries.unfinished > 1 || (arrival.suspect && tries.attempts + 1 >= settings.attempts)) arrival.alone = true
    const crashed = tries.unfinished > 0
    const spent = crashed ? tries.attempts >= settings.attempts : isSpent(settings, tries)
    if (spent && settings.onFailure !== 'block') {
      const detail = crashed
        ? `the message was tried ${tries.attempts} times, and its process ended during the last attempt`
        : 'the message failed too often'
      park.set(arrival, { reason: crashed ? 'crashed' : 'failed', error: new Quarantined(detail) })
      held.add(arrival)
    } else if (arrivals.length > 1 && ((arrival.suspect && !wasSuspect) || (arrival.alone && !wasAlone))) {
      fates.set(arrival, { kind: 'again', alone: arrival.alone })
      held.add(arrival)
    }
  }
  const now = new Map(open.filter((arrival) => !held.has(arrival)).map((arrival) => [arrival.item.id, arrival]))
  // Before the call: the count may be written and its reply lost. A second count would cost an attempt that never ran.
  for (const arrival of now.values()) {
    Object.assign(arrival, { tried: true, counted: true, attempts: arrival.attempts + 1 })
  }
  for (const { id, attempts } of await inbox.trying({ consumer, ids: [...now.keys()] })) {
    Object.assign(now.get(id) ?? {}, { attempts })
  }
  return arrivals.filter((arrival) => !held.has(arrival))
}

/**
 * Takes back the attempt of a message that is returned before it began: it runs elsewhere, and must not lose an
 * attempt.
 */
export async function uncount<Tx>(
  { inbox, settings, core }: ConsumerParts<Tx>,
  arrivals: readonly Arrival[],
): Promise<void> {
  const counted = arrivals.filter((arrival) => arrival.counted)
  if (counted.length === 0) return
  for (const arrival of counted) arrival.counted = false
  const ids = counted.flatMap(({ item, mark }) => (mark === null ? item.id : [item.id, mark]))
  await inbox.untry({ consumer: settings.name, ids }).catch((error: unknown) => {
    core.settings.observe({ kind: 'troubled', task: 'consumer', error })
  })
}

/** If a message waits or is about to be parked, later messages of its aggregate do not run now. */
function waitingBehind(
  batch: readonly Arrival[],
  ready: readonly Arrival[],
  park: ReadonlyMap<Arrival, Why>,
  fates: Fates,
): Arrival[] {
  const free = notBehind(batch, (arrival) => park.has(arrival) || fates.get(arrival)?.kind === 'again')
  for (const arrival of ready) if (!free.has(arrival)) fates.set(arrival, { kind: 'again', alone: arrival.alone })
  return ready.filter((arrival) => free.has(arrival))
}

async function attempt<Tx>(parts: ConsumerParts<Tx>, arrivals: readonly Arrival[]): Promise<Fates> {
  if (arrivals.length === 0) return new Map()
  const failure = arrivals[0]?.failure
  if (failure) return new Map(arrivals.map((arrival) => [arrival, { kind: 'failed', error: failure.error }]))
  if (parts.settings.leaseMs === null) return processBatch(parts, arrivals)
  const fates: Fates = new Map()
  for (const arrival of arrivals) fates.set(arrival, await processLeased(parts, arrival))
  return fates
}

async function judge<Tx>(
  parts: ConsumerParts<Tx>,
  arrival: Arrival,
  fate: Fate,
  park: Map<Arrival, Why>,
  fates: Fates,
): Promise<void> {
  const { delivery, onFailure } = parts.settings
  const isOver = delivery === 'at-most-once' && onFailure !== 'block' && arrival.began
  if (fate.kind === 'failed' || (fate.kind === 'troubled' && isOver)) {
    // Set before the store is asked: if it is in trouble now, the message still does not run again.
    if (isOver) arrival.failure = { error: fate.error }
    return failed(parts, arrival, fate.error, park, fates)
  }
  if (fate.kind === 'behind') {
    park.set(arrival, { reason: 'behind', error: new Behind('an earlier message of its aggregate is parked') })
    return
  }
  // This was checked for duplicates already. If deliveries come faster than the check, checking again would never end.
  if (fate.kind === 'duplicate') arrival.takesTwins()
  if (fate.kind === 'again') arrival.alone = fate.alone
  fates.set(arrival, fate)
}

async function failed<Tx>(
  { inbox, settings }: ConsumerParts<Tx>,
  arrival: Arrival,
  error: unknown,
  park: Map<Arrival, Why>,
  fates: Fates,
): Promise<void> {
  const { line, fingerprint } = describeError(error)
  const { name: consumer, onFailure, delivery } = settings
  const failure = { id: arrival.item.id, counted: arrival.counted, error: line, fingerprint }
  const count = (): ReturnType<typeof inbox.failed> => inbox.failed({ consumer, failures: [failure] })
  // If the message ended its session, the pool may still hold that session. The first statement on it fails.
  const [tries] = await count().catch((reason: unknown) => (isStoreTrouble(reason) ? count() : Promise.reject(reason)))
  arrival.attempts = tries?.attempts ?? arrival.attempts + 1
  arrival.tried = true
  arrival.counted = false
  arrival.mark = null
  const spent = tries ? isSpent(settings, tries) : arrival.attempts >= settings.attempts
  const last = isFinal(error) || spent || delivery === 'at-most-once'
  if (last && onFailure !== 'block') park.set(arrival, { reason: isFinal(error) ? 'refused' : 'failed', error })
  else fates.set(arrival, { kind: 'failed', error })
}

/** Whether the attempts and `retryFor` are spent, by the database's clock, which wrote both times. */
function isSpent({ attempts, retryForMs }: ConsumerSettings, tries: Tries): boolean {
  const { timeline } = tries
  const failedForMs = (timeline.at(-1)?.at ?? 0) - (timeline[0]?.at ?? 0)
  return tries.attempts >= attempts && failedForMs >= retryForMs
}

/** A message that is parked untried waits for its predecessor first. Otherwise its successors would overtake both. */
async function letWait<Tx>(
  { inbox, settings }: ConsumerParts<Tx>,
  park: Map<Arrival, Why>,
  fates: Fates,
): Promise<void> {
  const untried = [...park].flatMap(([arrival, { reason }]) =>
    arrival.item.previous !== null && (reason === 'unknownType' || reason === 'unreadable') ? arrival : [],
  )
  if (untried.length === 0 || settings.delivery !== 'once') return
  const states = await inbox.look({ consumer: settings.name, items: untried.map(({ item }) => item) })
  for (const arrival of untried.filter((_, i) => states[i] === 'early')) {
    park.delete(arrival)
    fates.set(arrival, { kind: 'early' })
  }
}

const TRIED_AGAIN: ReadonlySet<string | undefined> = new Set(['again', 'busy', 'failed', 'troubled'])

/**
 * The messages to park, in their order of arrival, because a redrive runs them in the order of their letters. A message
 * waits while an earlier message of its aggregate is tried again: that one would be parked behind it.
 */
function inOrder(batch: readonly Arrival[], park: ReadonlyMap<Arrival, Why>, fates: Fates): Map<Arrival, Why> {
  const free = notBehind(batch, (arrival) => TRIED_AGAIN.has(fates.get(arrival)?.kind))
  const ordered = new Map<Arrival, Why>()
  for (const arrival of batch) {
    const why = park.get(arrival)
    if (why && free.has(arrival)) ordered.set(arrival, why)
    else if (why) fates.set(arrival, { kind: 'again', alone: arrival.alone })
  }
  return ordered
}

/**
 * Writes dead letters together with the log's position, in one transaction. A message that runs elsewhere at this
 * moment is not parked, because that process may be about to commit it.
 */
async function parkMessages<Tx>(
  parts: ConsumerParts<Tx>,
  park: ReadonlyMap<Arrival, Why>,
  fates: Fates,
): Promise<void> {
  if (park.size === 0) return
  const { inbox, settings } = parts
  const letters = [...park].map(([arrival, { reason, error }]) => {
    // A message behind a parked one is parked too, even with 'skip'.
    const state = settings.onFailure === 'skip' && reason !== 'behind' ? 'skipped' : 'parked'
    return letterOf(arrival, { state, reason, error }, settings.mask)
  })
  const positions = positionsAfter(parts, deliveriesOf([...park.keys()]))
  for (const [index, [arrival, { reason }]] of [...park].entries()) {
    arrival.parkedAs = { reason, letter: letters[index] as Letter }
  }
  const { name: consumer, deadlineMs } = settings
  const busy = new Set(await inbox.park({ consumer, letters, positions, deadlineMs }))
  for (const arrival of park.keys()) {
    if (!busy.has(arrival.item.id)) fates.set(arrival, { kind: 'parked' })
    else {
      arrival.parkedAs = null
      fates.set(arrival, { kind: 'busy' })
    }
  }
}

/**
 * Reports settled messages to the log's positions. Positions that committed with an effect have already moved. A
 * position never goes back.
 */
export async function passSettled<Tx>(
  { tracker, inbox, settings, core }: ConsumerParts<Tx>,
  arrivals: readonly Arrival[],
  fates: Fates,
): Promise<void> {
  if (!tracker) return
  const memoryMs = Math.max(settings.inboxForMs, settings.rememberForMs)
  // Before any await: if two batches end together, the later one moves the position past both.
  for (const arrival of arrivals) {
    const fate = fates.get(arrival)
    // Half of the time, because the row is older than this moment. A swept witness must not look like a restored
    // database.
    const keptMs = fate && isApplied(fate) ? memoryMs : settings.lettersForMs
    tracker.settled(arrival.deliveries, witnessOf(arrival, fate), keptMs / 2)
  }
  const deliveries = deliveriesOf(arrivals)
  try {
    for (let positions = tracker.reached(deliveries); positions.length > 0; positions = tracker.reached(deliveries)) {
      await inbox.pass({ consumer: settings.name, source: settings.from.name, positions })
      tracker.wrote(positions)
    }
  } catch (error) {
    core.settings.observe({ kind: 'troubled', task: 'consumer', error })
  }
}

/** An inbox id of the transaction that settled the message. Null: there is none. */
function witnessOf({ item }: Arrival, fate: Fate | undefined): string | null {
  if (fate?.kind === 'applied') return fate.witness
  return fate && fate.kind !== 'passed' ? item.id : null
}

/** Messages whose predecessors never came. */
export async function parkOrphans<Tx>(parts: ConsumerParts<Tx>, arrivals: readonly Arrival[]): Promise<Fates> {
  const fates: Fates = new Map()
  const why = ({ delivery }: Arrival): Why => {
    const error = new Orphaned(`its predecessor '${String(delivery.previous).slice(0, 80)}' is not applied`)
    return { reason: 'orphaned', error }
  }
  try {
    await parkMessages(parts, new Map(arrivals.map((arrival) => [arrival, why(arrival)])), fates)
  } catch (error) {
    for (const arrival of arrivals) fates.set(arrival, { kind: 'troubled', error })
  }
  return fates
}
