import { isOnceError, onceError } from '../errors.ts'
import {
  BATCH_LATE_DEADLINES,
  BATCH_LATE_MS_MIN,
  BATCH_LATE_SHARE,
  BATCH_STALE_LOCK_MS,
  BATCH_STALE_LOCKS_MAX,
  RERUN_BACKOFF_MS,
  RERUNS_MAX,
} from '../limits.ts'
import type { Answer } from '../lifecycle/answer.ts'
import { sleep } from '../platform/clock.ts'
import { required } from '../store/lacking.ts'
import type { Batches, BatchSession, Claimed, EventRow, Row } from '../store/store.ts'
import { AnswerTime } from './answer-time.ts'
import { capped, checkHeld, conflictOf, isTransient, publisherOf, rerunAtomic } from './atomic.ts'
import { BatchRefusal, type Item } from './batch-item.ts'
import { answerOfFinal } from './codec.ts'
import { wakeRelays, type Core } from './core.ts'
import { tellCrowded } from './crowding.ts'
import { replayed } from './execute.ts'
import { isFinal } from './final.ts'
import { refusalOf, replayOf } from './outcome.ts'
import { remember } from './settle.ts'

interface Won extends Item {
  readonly claimed: Claimed
}

interface Ready {
  readonly item: Won
  readonly answer: Answer
  readonly events: readonly EventRow[]
}

/** What is left to do after one transaction. */
export interface Remains {
  /** The requests that must run again, in these batches. */
  readonly again: readonly (readonly Item[])[]
  /** The batch asked for more locks than the server has. */
  readonly crowded: boolean
}

const NOTHING: Remains = { again: [], crowded: false }

/** One transaction under way. */
interface Round<Tx> {
  readonly core: Core<Tx>
  readonly batches: Batches
  readonly startedAt: number
  readonly deadlineMs: number
}

/**
 * One transaction for many requests: claims, each winner's own effect, answers and events, one commit. It never throws:
 * every request is answered, refused, or returned to run again. If one request fails, nothing of this transaction is
 * committed. That request gets its error, and the others run again without it.
 */
export async function runBatch<Tx>(core: Core<Tx>, batches: Batches, items: readonly Item[]): Promise<Remains> {
  const sorted = items.toSorted((a, b) => (a.request.claim.id < b.request.claim.id ? -1 : 1))
  const [first] = sorted
  if (!first) return NOTHING
  const staleLocks = Math.max(...sorted.map((item) => item.staleLocks))
  if (staleLocks > 0) await sleep(core.clock, BATCH_STALE_LOCK_MS * 2 ** staleLocks)
  const startedAt = core.clock.now()
  for (const item of sorted) item.since ??= startedAt
  const deadlineMs = deadlineOf(first, sorted, startedAt)
  const round: Round<Tx> = { core, batches, startedAt, deadlineMs }
  let opened
  try {
    opened = await batches.open({
      claims: sorted.map((item) => item.request.claim),
      deadlineMs,
      rerun: first.request.policy.expired === 'rerun',
    })
  } catch (error) {
    return failed(round, sorted, error)
  }
  const { session, won } = opened
  const winners: Won[] = []
  const blocked: Item[] = []
  const losers: Item[] = []
  for (const item of sorted) {
    const claimed = won.get(item.request.claim.id)
    if (claimed) {
      item.won(true)
      winners.push(Object.assign(item, { claimed }))
    } else if (isBlockedByStaleLock(item)) blocked.push(item)
    else losers.push(item)
  }
  const ending = settled(round, session, winners)
  for (const item of losers) void answerLoser(core, item, ending)
  const { again, crowded } = await ending
  for (const items of again) for (const item of items) item.won(false)
  return { again: [blocked, ...again], crowded }
}

/** The server reports the end of a connection before it releases the connection's locks. */
function isBlockedByStaleLock(item: Item): boolean {
  return (item.lost || item.late > 0) && item.staleLocks++ < BATCH_STALE_LOCKS_MAX
}

async function settled<Tx>(round: Round<Tx>, session: BatchSession, winners: readonly Won[]): Promise<Remains> {
  if (winners.length === 0) {
    await session.rollback()
    return NOTHING
  }
  try {
    return await runWinners(round, session, winners)
  } catch (error) {
    await session.rollback()
    return failed(round, winners, error)
  }
}

/**
 * Requests that run again after a deadline have already waited, so they get less time: the next hanging request is
 * found sooner.
 */
function deadlineOf(first: Item, items: readonly Item[], now: number): number {
  const ms = first.request.deadlineMs
  const late = Math.max(...items.map((item) => item.late))
  const least = Math.min(ms, BATCH_LATE_MS_MIN)
  // A request that runs alone delays no other request.
  if (items.length === 1 && late > 0) return Math.max(Math.min(ms, lastMoment(first, now) - now), least)
  return Math.max(ms / BATCH_LATE_SHARE ** late, least)
}

async function runWinners<Tx>(round: Round<Tx>, session: BatchSession, winners: readonly Won[]): Promise<Remains> {
  const { core, batches } = round
  const effects = await session.effects(winners.map((item) => item.statement))
  if (effects.kind !== 'done') {
    const { index, error } = effects
    const culprit = winners[index]
    await session.rollback()
    if (effects.kind === 'ended') return ended(round, winners, culprit, effects.late, error)
    return culprit && !batches.isCrowded?.(error)
      ? without(round, winners, culprit, error)
      : failed(round, winners, error)
  }
  const ready: Ready[] = []
  const time = new AnswerTime(core.clock, round.startedAt + round.deadlineMs)
  for (const [index, item] of winners.entries()) {
    try {
      ready.push(await readyOf(core, item, effects.rows[index] ?? [], time))
    } catch (error) {
      time.end()
      await session.rollback()
      return time.over ? tooLate(round, winners, item, error) : without(round, winners, item, error)
    }
  }
  time.end()
  try {
    const ending = await session.complete(
      ready.map(({ item, answer, events }) => ({
        claim: item.request.claim,
        claimed: item.claimed,
        answer: capped(answer),
        events,
      })),
    )
    if (ending !== 'committed') throw onceError('ONCE_ROLLED_BACK')
  } catch (error) {
    if (isOnceError(error, 'ONCE_STORE_UNAVAILABLE')) return ended(round, winners, undefined, false, error)
    return failed(round, winners, error)
  }
  for (const { item, answer } of ready) answerItem(item, answer, item.claimed.life)
  wakeRelays(
    core,
    ready.reduce((sum, { events }) => sum + events.length, 0),
  )
  core.settings.observe({ kind: 'batch', size: winners.length, won: winners.length, failed: 0 })
  return NOTHING
}

/**
 * The transaction failed as a whole. After a conflict all requests run again. After too many locks, an effect that only
 * COMMIT refused (a deferred constraint) or a deadline, halves run again, down to the request at fault. Any other error
 * goes to all requests.
 */
async function failed<Tx>(round: Round<Tx>, items: readonly Item[], error: unknown): Promise<Remains> {
  const { core, batches } = round
  if (isTransient(core, error)) return conflicted(core, items, items, error)
  if (isOnceError(error, 'ONCE_DEADLINE') && items.length > 1) return halved(stillInTime(core, items, error))
  const crowded = batches.isCrowded?.(error) === true
  if (items.length > 1 && (crowded || !isOnceError(error))) {
    if (crowded) core.settings.observe({ kind: 'troubled', task: 'batch', error })
    tellCrowded(core, 'batch', error)
    return halved(items, crowded)
  }
  for (const item of items) item.reject(error)
  return { again: [], crowded }
}

function halved(items: readonly Item[], crowded = false): Remains {
  const half = Math.ceil(items.length / 2)
  return { again: [items.slice(half), items.slice(0, half)], crowded }
}

/** Requests with too many conflicts get ONCE_CONFLICT. All others run again after a short pause. */
async function conflicted<Tx>(
  core: Core<Tx>,
  items: readonly Item[],
  losers: readonly Item[],
  error: unknown,
): Promise<Remains> {
  const given = new Set(losers.filter((item) => item.conflicts++ >= RERUNS_MAX))
  for (const item of given) item.reject(conflictOf(core, error))
  const conflicts = Math.max(...losers.map((item) => item.conflicts))
  await sleep(core.clock, RERUN_BACKOFF_MS * 2 ** conflicts * core.random.next())
  return { again: [items.filter((item) => !given.has(item))], crowded: false }
}

/** Only the request at fault gets the error. The others run again at once. */
async function without<Tx>(
  { core }: Round<Tx>,
  items: readonly Item[],
  culprit: Item,
  error: unknown,
): Promise<Remains> {
  if (isTransient(core, error)) return conflicted(core, items, [culprit], error)
  if (isFinal(error)) void refuse(core, culprit, answerOfFinal(error))
  else if (error instanceof BatchRefusal) void refuse(core, culprit, error.answer)
  else culprit.reject(error)
  core.settings.observe({ kind: 'batch', size: items.length, won: items.length, failed: 1 })
  return { again: [items.filter((item) => item !== culprit)], crowded: false }
}

/** Not every client can tell a deadline from a lost connection, so the elapsed time decides. */
function ended<Tx>(
  round: Round<Tx>,
  items: readonly Item[],
  culprit: Item | undefined,
  late: boolean,
  error: unknown,
): Remains {
  const { core, startedAt, deadlineMs } = round
  if (late || core.clock.now() - startedAt >= deadlineMs) return tooLate(round, items, culprit, error)
  core.settings.observe({ kind: 'troubled', task: 'batch', error })
  const [alone, others]: [Item[], Item[]] = [[], []]
  for (const item of items) {
    if (item.lost) item.reject(error)
    else (item === culprit ? alone : others).push(item)
    item.lost = true
  }
  // Perhaps the running statement broke the connection, so its request runs alone, after the others.
  return { again: [alone, others], crowded: false }
}

/**
 * The request that was running at the deadline has failed, and the others run again in their remaining time. If that
 * request had only a part of its time, it is only suspected, because the machine may have hung. It runs alone, after
 * the others.
 */
function tooLate<Tx>({ core }: Round<Tx>, items: readonly Item[], culprit: Item | undefined, error: unknown): Remains {
  const deadline = isOnceError(error, 'ONCE_DEADLINE') ? error : onceError('ONCE_DEADLINE', { cause: error })
  const suspected = culprit && culprit.late > 0 && items.length > 1 ? [culprit] : []
  const failed = culprit && suspected.length === 0 ? 1 : 0
  if (failed) culprit?.reject(deadline)
  core.settings.observe({ kind: 'batch', size: items.length, won: items.length, failed })
  const others = items.filter((item) => item !== culprit)
  return { again: [stillInTime(core, suspected, deadline), stillInTime(core, others, deadline)], crowded: false }
}

function lastMoment(item: Item, now: number): number {
  return (item.since ?? now) + BATCH_LATE_DEADLINES * item.request.deadlineMs
}

/** The other requests get the deadline error, if their time has passed too. */
function stillInTime<Tx>(core: Core<Tx>, items: readonly Item[], error: unknown): Item[] {
  const now = core.clock.now()
  return items.filter((item) => {
    item.late += 1
    const inTime = now < lastMoment(item, now)
    if (!inTime) item.reject(error)
    return inTime
  })
}

async function readyOf<Tx>(core: Core<Tx>, item: Won, rows: readonly Row[], time: AnswerTime): Promise<Ready> {
  const publisher = publisherOf(core, item.request, item.claimed)
  const made = item.respond(rows, publisher)
  const answer = made instanceof Promise ? await time.wait(made) : made
  checkHeld(answer)
  const events = publisher.take()
  return { item, answer, events: events instanceof Promise ? await time.wait(events) : events }
}

function answerItem(item: Item, answer: Answer, life?: string): void {
  const stored = capped(answer).kept
  item.resolve({ kind: 'outcome', outcome: { answer, replayed: false }, stored, ...(life !== undefined && { life }) })
}

async function refuse<Tx>(core: Core<Tx>, item: Item, answer: Answer): Promise<void> {
  item.won(false)
  try {
    const view = await required(core.store, core.transactions, 'batched').refuse({
      claim: item.request.claim,
      answer: capped(answer),
    })
    if (view.inserted) answerItem(item, answer)
    // Another request was quicker, or the claim starts a new life of an expired record.
    else item.resolve(await rerunAtomic(core, item.request, async () => ({ answer, fate: 'complete' })))
  } catch (error) {
    item.reject(error)
  }
}

/** Another request has the key. The record says what to answer. Without a record, the operation is still running. */
async function answerLoser<Tx>(core: Core<Tx>, item: Item, ending: Promise<unknown>): Promise<void> {
  const { claim, policy } = item.request
  try {
    const { record, answer } = await core.store.read({ id: claim.id })
    const view = { inserted: false, sameRunning: true, otherRunning: false, record, reread: true }
    const decision = core.decide(view, policy)
    if (decision.do === 'replay') {
      const outcome = replayOf(answer)
      remember(core, item.request, outcome, decision.record)
      replayed(core, item.request, 'database')
      item.resolve({ kind: 'outcome', outcome, stored: true })
    } else if (decision.do === 'inFlight' || decision.do === 'renew') {
      // The batch may hold locks of this key. Until it ends, a retry would be refused although no operation runs.
      await ending
      item.resolve({ kind: 'busy', retryAfterMs: decision.do === 'inFlight' ? decision.retryAfterMs : null })
    } else if (decision.do === 'takeOver') {
      // Only a leased handler can finish this operation, so a batch must not wait for it.
      item.reject(
        onceError('ONCE_OUTCOME_UNKNOWN', {
          detail: 'This operation was started with a lease and is not completed; run it with a lease',
        }),
      )
    } else {
      item.reject(refusalOf(decision))
    }
  } catch (error) {
    item.reject(error)
  }
}
