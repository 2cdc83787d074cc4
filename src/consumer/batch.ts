import { isOnceError, onceError } from '../errors.ts'
import { invariant } from '../invariant.ts'
import type { Arrival } from './inbox/arrival.ts'
import type { InboxItem } from '../store/inbox.ts'
import type { EventRow, Session } from '../store/store.ts'
import { isTransient, rerunAfterConflicts } from '../operation/atomic.ts'
import type { Fate, Fates } from './fate.ts'
import { handle } from './handler.ts'
import { keepsArrivalOrder, notBehind } from './lanes.ts'
import { inMessageSpans, recordingSpan } from './message-spans.ts'
import { inSpan } from '../observe/tracing.ts'
import { deliveriesOf, positionsAfter, type ConsumerParts } from './parts.ts'
import { wakeRelays, type Core } from '../operation/core.ts'
import { isCrowded } from '../operation/crowding.ts'
import { SharedTransaction } from '../operation/shared-transaction.ts'
import { isStoreTrouble } from './store-trouble.ts'

/**
 * For dead letters that run again: they do not block themselves. Called right before the commit, with the letters whose
 * effect is about to commit. If it throws, everything is rolled back. Without transactions, it is called after the
 * effect, without a session.
 */
export type SettleRedriven<Tx> = (session: Session<Tx> | null, taken: readonly Arrival[]) => Promise<void>

const AGAIN: Fate = { kind: 'again', alone: false }
const ALONE: Fate = { kind: 'again', alone: true }

/**
 * Inbox rows first, then the handlers in order, then everything in one commit. A failure rolls the whole batch back.
 * Then the other messages run again as one batch, and the failed message runs alone. Savepoints would leave the inbox
 * row of an effect that was rolled back. `settleRedriven` is set for dead letters: they do not block themselves, and
 * the commit settles them.
 */
export function processBatch<Tx>(
  parts: ConsumerParts<Tx>,
  arrivals: readonly Arrival[],
  settleRedriven?: SettleRedriven<Tx>,
): Promise<Fates> {
  return inMessageSpans(parts, arrivals, () => runBatch(parts, arrivals, settleRedriven))
}

async function runBatch<Tx>(
  parts: ConsumerParts<Tx>,
  arrivals: readonly Arrival[],
  settleRedriven: SettleRedriven<Tx> | undefined,
): Promise<Fates> {
  const { core } = parts
  const runsAgain = (error: unknown): boolean => {
    if (!isSessionLost(error)) return isTransient(core, causeOf(error))
    core.settings.observe({ kind: 'troubled', task: 'consumer', error: causeOf(error) })
    return true
  }
  try {
    return await rerunAfterConflicts(core, () => attemptBatch(parts, arrivals, settleRedriven), runsAgain)
  } catch (error) {
    return fatesOfFailure(core, arrivals, error)
  }
}

/** Thrown if it is known which message failed. */
export class HandlerFailed extends Error {
  readonly arrival: Arrival
  /** The server or the network ended its session, not a time limit. */
  readonly sessionLost: boolean
  constructor(arrival: Arrival, cause: unknown, sessionLost = false) {
    super('a handler failed', { cause })
    this.arrival = arrival
    this.sessionLost = sessionLost
  }
}

function causeOf(error: unknown): unknown {
  return error instanceof HandlerFailed ? error.cause : error
}

function isSessionLost(error: unknown): boolean {
  return error instanceof HandlerFailed && error.sessionLost
}

async function attemptBatch<Tx>(
  parts: ConsumerParts<Tx>,
  arrivals: readonly Arrival[],
  settleRedriven: SettleRedriven<Tx> | undefined,
): Promise<Fates> {
  const { core, inbox, settings } = parts
  const consumer = settings.name
  const redrive = settleRedriven !== undefined
  const items = settings.delivery === 'once' ? itemsOf(arrivals) : []
  const span = recordingSpan(arrivals)
  const { deadlineMs } = settings
  invariant(inbox.take, 'a consumer without a lease was started without transactions')
  const take = inbox.take.bind(inbox, { consumer, items, deadlineMs, redrive })
  const { states, session } = await inSpan(span, { kind: 'claim' }, take)
  const fates: Fates = new Map()
  const taken: Arrival[] = []
  for (const [index, arrival] of arrivals.entries()) {
    const state = states[index] ?? 'taken'
    if (state === 'taken') taken.push(arrival)
    else fates.set(arrival, { kind: state })
  }
  try {
    if (outranTheirPredecessor(arrivals, fates, keepsArrivalOrder(parts))) {
      await session.rollback()
      for (const arrival of taken) fates.set(arrival, AGAIN)
      return fates
    }
    if (taken.length === 0) {
      await session.rollback()
      return fates
    }
    const transaction = new SharedTransaction(session.session)
    const published = await (settings.pipelined ? runTogether : runInOrder)(parts, transaction, taken)
    const settled = [...taken, ...[...fates].filter(([, { kind }]) => kind === 'duplicate').map(([arrival]) => arrival)]
    const events = await transaction.standing(published.flat())
    await settleRedriven?.(session.session, taken)
    const tried = taken.flatMap(({ tried: isTried, mark, item }) => [
      ...(isTried ? [item.id] : []),
      ...(mark ? [mark] : []),
    ])
    const done = { consumer, events, tried, positions: positionsAfter(parts, deliveriesOf(settled)) }
    const ending = await inSpan(span, { kind: 'commit' }, () => session.complete(done))
    if (ending !== 'committed') throw onceError('ONCE_ROLLED_BACK')
    transaction.committed()
    wakeRelays(core, events.length)
  } catch (thrown) {
    const error = await blamed(session.session, thrown)
    // Past the deadline a query may still be running on this connection, so do not wait for the rollback.
    const cause = causeOf(error)
    if (isOnceError(cause, 'ONCE_DEADLINE')) void session.rollback()
    else await session.rollback()
    if (error instanceof HandlerFailed && isTransient(core, cause)) throw error
    // In a batch it is not known whose statement ended the session, so each message runs alone first.
    if (isSessionLost(error) && arrivals.length === 1 && settings.delivery !== 'at-most-once') throw error
    for (const [arrival, fate] of fatesOfFailure(core, taken, error)) fates.set(arrival, fate)
    return fates
  }
  // One id is enough as witness: all rows of the transaction are in the database, or none.
  const applied: Fate = { kind: 'applied', witness: items.length > 0 ? (taken[0]?.item.id ?? null) : null }
  for (const arrival of taken) fates.set(arrival, applied)
  return fates
}

/** If the session has ended, the reason replaces the error of the handler. */
async function blamed<Tx>(session: Session<Tx>, error: unknown): Promise<unknown> {
  if (!(error instanceof HandlerFailed) || isOnceError(error.cause, 'ONCE_DEADLINE')) return error
  const told = await session.blame?.(error.cause)
  return told === undefined ? error : new HandlerFailed(error.arrival, told, isStoreTrouble(told))
}

/** A predecessor in the same batch is taken together with its successor, or not at all. */
function itemsOf(arrivals: readonly Arrival[]): InboxItem[] {
  const here = new Set(arrivals.map(({ item }) => item.id))
  return arrivals.map(({ item }) =>
    item.previous !== null && here.has(item.previous) ? { ...item, previous: null } : item,
  )
}

/**
 * A message was taken, but its predecessor in the same batch was not, because the predecessor runs elsewhere. Its
 * result is 'early'. If only the order of arrival counts, the result is 'busy'.
 */
function outranTheirPredecessor(arrivals: readonly Arrival[], fates: Fates, byArrival: boolean): boolean {
  const missing = new Set<string>()
  const free = byArrival ? notBehind(arrivals, (arrival) => fates.get(arrival)?.kind === 'busy') : null
  let outran = false
  for (const arrival of arrivals) {
    const fate = fates.get(arrival)
    const early = arrival.item.previous !== null && missing.has(arrival.item.previous)
    if (!fate && early) {
      fates.set(arrival, { kind: 'early' })
      outran = true
    } else if (!fate && free && !free.has(arrival)) {
      fates.set(arrival, { kind: 'busy' })
      outran = true
    }
    if (early || (fate && fate.kind !== 'duplicate')) missing.add(arrival.item.id)
  }
  return outran
}

async function runInOrder<Tx>(
  { core, settings }: ConsumerParts<Tx>,
  transaction: SharedTransaction,
  taken: readonly Arrival[],
): Promise<(readonly EventRow[])[]> {
  const published: (readonly EventRow[])[] = []
  for (const arrival of taken) {
    try {
      published.push(await handle(core, settings, transaction, arrival))
    } catch (error) {
      throw new HandlerFailed(arrival, error)
    }
  }
  return published
}

/** Runs all messages at once, but those of one aggregate one after the other. The first failure is the real one. */
async function runTogether<Tx>(
  { core, settings }: ConsumerParts<Tx>,
  transaction: SharedTransaction,
  taken: readonly Arrival[],
): Promise<(readonly EventRow[])[]> {
  const published = new Map<Arrival, readonly EventRow[]>()
  let failure: HandlerFailed | undefined
  const lines = new Map<string | Arrival, Arrival[]>()
  for (const arrival of taken) {
    const line = arrival.item.aggregate ?? arrival
    lines.set(line, [...(lines.get(line) ?? []), arrival])
  }
  await Promise.all(
    [...lines.values()].map(async (line) => {
      for (const arrival of line) {
        if (failure) return
        try {
          published.set(arrival, await handle(core, settings, transaction, arrival))
        } catch (error) {
          failure ??= new HandlerFailed(arrival, error)
        }
      }
    }),
  )
  if (failure) throw failure
  return taken.map((arrival) => published.get(arrival) ?? [])
}

/** Decides which message is at fault. An error that a handler threw counts against its message, whatever its code. */
export function fatesOfFailure<Tx>(core: Core<Tx>, arrivals: readonly Arrival[], error: unknown): Fates {
  const trouble = causeOf(error)
  if (isCrowded(core, trouble))
    return new Map(arrivals.map((arrival) => [arrival, { kind: 'troubled', error: trouble }]))
  if (error instanceof HandlerFailed) {
    const { arrival: culprit, cause } = error
    // The message may succeed when it runs alone. Then nothing else would report why the batch was late.
    if (arrivals.length > 1 && (isOnceError(cause, 'ONCE_DEADLINE') || isStoreTrouble(cause)))
      core.settings.observe({ kind: 'troubled', task: 'consumer', error: cause })
    const failed: Fate = arrivals.length === 1 ? { kind: 'failed', error: cause } : ALONE
    return new Map(arrivals.map((arrival) => [arrival, arrival === culprit ? failed : AGAIN]))
  }
  if (isStoreTrouble(error)) {
    return new Map(arrivals.map((arrival) => [arrival, { kind: 'troubled', error }]))
  }
  // The commit failed, so it is not known which message is at fault: each runs alone.
  const fate: Fate = arrivals.length === 1 ? { kind: 'failed', error } : ALONE
  return new Map(arrivals.map((arrival) => [arrival, fate]))
}
