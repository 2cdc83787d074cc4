import { isOnceError, onceError } from '../errors.ts'
import { RERUNS_MAX } from '../limits.ts'
import type { Answer } from '../lifecycle/answer.ts'
import type { Publisher } from '../outbox/publisher.ts'
import type { Batches, BatchSession, Claimed, EventRow, Row, UserStatement } from '../store/store.ts'
import { capped, checkHeld, isTransient, publisherOf } from './atomic.ts'
import { answerOfFinal } from './codec.ts'
import { wakeRelays, type Core } from './core.ts'
import { replayed } from './execute.ts'
import { isFinal } from './final.ts'
import { refusalOf, replayOf, type Attempt } from './outcome.ts'
import type { Request } from './request.ts'
import { remember } from './settle.ts'

/** One waiting request of a batched route. */
export interface Item {
  readonly request: Request
  readonly statement: UserStatement
  /** Throws a `Final` or a `BatchRefusal` to be refused without its effect. */
  respond(rows: readonly Row[], publisher: Publisher): Answer | Promise<Answer>
  /** The key is ours. */
  won(): void
  resolve(attempt: Attempt): void
  reject(error: unknown): void
  tries: number
}

/** Thrown by `respond`: this answer alone is stored, as it is. */
export class BatchRefusal extends Error {
  readonly answer: Answer

  constructor(answer: Answer) {
    super('the answer keeps no rows')
    this.answer = answer
  }
}

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
  /** Whoever must be run again, in these batches. */
  readonly again: readonly (readonly Item[])[]
  /** The batch asked for more locks than the server has. */
  readonly crowded: boolean
}

const NOTHING: Remains = { again: [], crowded: false }

/**
 * One transaction for many requests: claims, each winner's own effect, answers and events, one commit. Never throws:
 * every request is answered, refused, or among those to run again.
 */
export async function runBatch<Tx>(core: Core<Tx>, batches: Batches, items: readonly Item[]): Promise<Remains> {
  const sorted = items.toSorted((a, b) => (a.request.claim.id < b.request.claim.id ? -1 : 1))
  const [first] = sorted
  if (!first) return NOTHING
  let opened
  try {
    opened = await batches.open({
      claims: sorted.map((item) => item.request.claim),
      deadlineMs: first.request.deadlineMs,
      rerun: first.request.policy.expired === 'rerun',
    })
  } catch (error) {
    return failed(core, batches, sorted, error)
  }
  const winners: Won[] = []
  for (const item of sorted) {
    const claimed = opened.won.get(item.request.claim.id)
    if (claimed) {
      item.won()
      winners.push(Object.assign(item, { claimed }))
    } else void answerLoser(core, item)
  }
  if (winners.length === 0) {
    await opened.session.rollback()
    return NOTHING
  }
  return runWinners(core, batches, opened.session, winners)
}

async function runWinners<Tx>(
  core: Core<Tx>,
  batches: Batches,
  session: BatchSession,
  winners: readonly Won[],
): Promise<Remains> {
  const effects = await session.effects(winners.map((item) => item.statement))
  if (effects.kind === 'failed') {
    await session.rollback()
    if (batches.isCrowded?.(effects.error)) return failed(core, batches, winners, effects.error)
    const culprit = winners[effects.index]
    if (culprit) return without(core, winners, culprit, effects.error)
    // Lost behind the last effect: no request's fault, and nothing was committed.
    return failed(core, batches, winners, onceError('ONCE_STORE_UNAVAILABLE', { cause: effects.error }))
  }
  const ready: Ready[] = []
  for (const [index, item] of winners.entries()) {
    try {
      ready.push(await readyOf(core, item, effects.rows[index] ?? []))
    } catch (error) {
      await session.rollback()
      return without(core, winners, item, error)
    }
  }
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
    return failed(core, batches, winners, error)
  }
  for (const { item, answer } of ready) answerItem(item, answer)
  wakeRelays(
    core,
    ready.reduce((sum, { events }) => sum + events.length, 0),
  )
  core.settings.observe({ kind: 'batch', size: winners.length, won: winners.length, failed: 0 })
  return NOTHING
}

/**
 * The transaction failed as a whole. Too many locks, or an effect that only COMMIT refused (a deferred constraint):
 * halves are run again, down to the culprit. Anything else is everybody's error.
 */
function failed<Tx>(core: Core<Tx>, batches: Batches, items: readonly Item[], error: unknown): Remains {
  const crowded = batches.isCrowded?.(error) === true
  if (items.length > 1 && (crowded || !isOnceError(error))) {
    if (crowded) core.settings.observe({ kind: 'troubled', task: 'batch', error })
    const half = Math.ceil(items.length / 2)
    return { again: [items.slice(half), items.slice(0, half)], crowded }
  }
  for (const item of items) item.reject(error)
  return { again: [], crowded }
}

/** The culprit alone gets its error; the others run again at once. */
function without<Tx>(core: Core<Tx>, items: readonly Won[], culprit: Won, error: unknown): Remains {
  if (isTransient(core, error) && culprit.tries++ < RERUNS_MAX) return { again: [items], crowded: false }
  if (isFinal(error)) void refuse(core, culprit, answerOfFinal(error))
  else if (error instanceof BatchRefusal) void refuse(core, culprit, error.answer)
  else culprit.reject(error)
  core.settings.observe({ kind: 'batch', size: items.length, won: items.length, failed: 1 })
  return { again: [items.filter((item) => item !== culprit)], crowded: false }
}

async function readyOf<Tx>(core: Core<Tx>, item: Won, rows: readonly Row[]): Promise<Ready> {
  const publisher = publisherOf(core, item.request, item.claimed)
  const answer = await item.respond(rows, publisher)
  checkHeld(answer)
  return { item, answer, events: await publisher.take() }
}

function answerItem(item: Item, answer: Answer): void {
  item.resolve({ kind: 'outcome', outcome: { answer, replayed: false }, stored: capped(answer).kept })
}

async function refuse<Tx>(core: Core<Tx>, item: Item, answer: Answer): Promise<void> {
  try {
    const sight = await core.store.refuse({ claim: item.request.claim, answer: capped(answer) })
    if (sight.inserted) answerItem(item, answer)
    else await answerLoser(core, item)
  } catch (error) {
    item.reject(error)
  }
}

/** Somebody else has the key: the record says what to answer, and without one it is running. */
async function answerLoser<Tx>(core: Core<Tx>, item: Item): Promise<void> {
  const { claim, policy } = item.request
  try {
    const { record, answer } = await core.store.read({ id: claim.id })
    const sight = { inserted: false, sameRunning: true, otherRunning: false, record, reread: true }
    const decision = core.decide(sight, policy)
    if (decision.do === 'replay') {
      const outcome = replayOf(answer)
      remember(core, item.request, outcome, decision.record.expiresInMs)
      replayed(core, item.request, 'database')
      item.resolve({ kind: 'outcome', outcome, stored: true })
    } else if (decision.do === 'inFlight' || decision.do === 'renew' || decision.do === 'takeOver') {
      item.resolve({ kind: 'busy', retryAfterMs: decision.do === 'inFlight' ? decision.retryAfterMs : null })
    } else {
      item.reject(refusalOf(decision))
    }
  } catch (error) {
    item.reject(error)
  }
}
