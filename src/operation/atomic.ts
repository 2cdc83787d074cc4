import { isOnceError, onceError } from '../errors.ts'
import { deriveEventId } from '../key/derive.ts'
import type { Answer } from '../lifecycle/answer.ts'
import { ANSWER_HELD_BYTES_MAX, ANSWER_STORED_BYTES_MAX, RERUN_BACKOFF_MS, RERUNS_MAX } from '../limits.ts'
import { shortId } from '../observe/signal.ts'
import { inSpan } from '../observe/tracing.ts'
import type { Events } from '../outbox/event.ts'
import { Publisher, type Origin } from '../outbox/publisher.ts'
import { sleep } from '../platform/clock.ts'
import { required } from '../store/lacking.ts'
import type { Begun, Claimed, EventRow, Session } from '../store/store.ts'
import { wakeRelays, type Core } from './core.ts'
import { LazySignal, TimeLimit, withinMs } from './deadline.ts'
import { Enclosing, openEnclosing } from './enclosing.ts'
import { handleOf } from './handle.ts'
import { AtomicOperation } from './operation.ts'
import type { Attempt, Produced, Holds } from './outcome.ts'
import type { Request } from './request.ts'
import type { RunningHandlers } from './running.ts'
import { settledAtOnce, type ClaimOutcome } from './settle.ts'
import { settleClaim } from './settle-claim.ts'
import { SharedTransaction } from './shared-transaction.ts'
import type { Operation } from './types.ts'

/**
 * Produces the answer of an operation: the handler, wrapped by the code that encodes its result. It rejects, and never
 * throws.
 */
export type Produce<Tx> = (op: Operation<Tx, Events>) => Promise<Produced>

const CLAIM = { kind: 'claim' } as const
const HANDLER = { kind: 'handler' } as const
const COMMIT = { kind: 'commit' } as const

/** Atomic mode: claim, handler, events and answer in one transaction. A crash is a rollback. */
export async function attemptAtomic<Tx>(
  core: Core<Tx>,
  request: Request,
  produce: Produce<Tx>,
  won: Holds = () => {},
  attempt = 1,
): Promise<Attempt> {
  try {
    const { claim, deadlineMs, span } = request
    const transactions = required(core.store, core.transactions, 'atomic')
    const begin = { claim, deadlineMs }
    // Without a tracer the path has no function for it.
    const begun = await (span ? inSpan(span, CLAIM, () => transactions.begin(begin)) : transactions.begin(begin))
    const { session } = begun
    const settled = settledAtOnce(core, request, begun) ?? (await settledOrRolledBack(core, request, begun))
    if (settled.kind === 'busy') {
      // The transaction may hold locks of the key. Until it ends, a retry would be refused although no operation runs.
      await session.rollback()
      return settled
    }
    if (settled.kind === 'replay') {
      // The caller has its answer, and need not wait until the connection is released.
      if (session.leave) session.leave()
      else void session.rollback()
      return { ...settled, kind: 'outcome', stored: true }
    }
    won(true)
    const startedAt = core.clock.now()
    const claimed = attempt === settled.claimed.attempt ? settled.claimed : { ...settled.claimed, attempt }
    const transaction = new SharedTransaction(session)
    const made = await perform(core, request, transaction, claimed, produce)
    if (made.fate !== 'complete') {
      won(false)
      await session.rollback()
      if (made.fate === 'refuse') return await refuse(core, request, made.answer)
      core.settings.observe({ kind: 'released', id: shortId(request.claim.id), route: request.route })
      return { kind: 'outcome', outcome: { answer: made.answer, replayed: false }, stored: false }
    }
    const answer = capped(made.answer)
    const { events } = made
    const completed = { claim, claimed, answer, events, fenced: false }
    const ending = await (span ? inSpan(span, COMMIT, () => session.complete(completed)) : session.complete(completed))
    if (ending !== 'committed') throw onceError('ONCE_ROLLED_BACK')
    transaction.committed()
    wakeRelays(core, made.events.length)
    tellCompleted(core, request, attempt, startedAt)
    const { life } = claimed
    return { kind: 'outcome', outcome: { answer: made.answer, replayed: false }, stored: answer.kept, life }
  } catch (error) {
    won(false)
    throw conflictOf(core, error)
  }
}

/** The same for a handler that may be called again after a conflict. */
export function rerunAtomic<Tx>(core: Core<Tx>, request: Request, produce: Produce<Tx>, won?: Holds): Promise<Attempt> {
  return rerunAfterConflicts(core, (attempt) => {
    const id = shortId(request.claim.id)
    if (attempt > 1) core.settings.observe({ kind: 'rerun', id, route: request.route, attempt })
    return attemptAtomic(core, request, produce, won, attempt)
  })
}

/** A serialization failure or a deadlock, in our own statements or in the handler's. */
export function isTransient<Tx>(core: Core<Tx>, error: unknown): boolean {
  try {
    return isOnceError(error, 'ONCE_CONFLICT') || core.transactions?.isTransient?.(error) === true
  } catch {
    // Reading the error threw.
    return false
  }
}

/** Runs a transaction again after a conflict, up to RERUNS_MAX times. The last error is thrown unchanged. */
export async function rerunAfterConflicts<Tx, T>(
  core: Core<Tx>,
  run: (attempt: number) => Promise<T>,
  isConflict: (error: unknown) => boolean = (error) => isTransient(core, error),
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await run(attempt)
    } catch (error) {
      if (attempt > RERUNS_MAX || !isConflict(error)) throw error
      await sleep(core.clock, RERUN_BACKOFF_MS * 2 ** attempt * core.random.next())
    }
  }
}

/** Turns a conflict of the last re-run into ONCE_CONFLICT: nothing was committed, and a retry may succeed. */
export function conflictOf<Tx>(core: Core<Tx>, error: unknown): unknown {
  return !isOnceError(error) && isTransient(core, error) ? onceError('ONCE_CONFLICT', { cause: error }) : error
}

async function settledOrRolledBack<Tx>(core: Core<Tx>, request: Request, begun: Begun<Tx>): Promise<ClaimOutcome> {
  try {
    return await settleClaim(core, request, begun.session, begun)
  } catch (error) {
    await begun.session.rollback()
    throw error
  }
}

function tellCompleted<Tx>(core: Core<Tx>, request: Request, attempt: number, startedAt: number): void {
  const durationMs = core.clock.now() - startedAt
  core.pace.note(request.route, durationMs)
  core.settings.observe({ kind: 'completed', id: shortId(request.claim.id), route: request.route, durationMs, attempt })
}

interface HandlerRun {
  readonly attempt: number
  readonly signal?: LazySignal
  /** Absent inside another operation. See `TimeLimit`. */
  readonly running?: RunningHandlers
}

interface Made extends Produced {
  readonly events: readonly EventRow[]
}

/** Runs the handler inside its transaction. If this throws, the transaction has ended. */
export async function perform<Tx>(
  core: Core<Tx>,
  request: Request,
  transaction: SharedTransaction,
  claimed: Claimed,
  produce: Produce<Tx>,
  signal?: LazySignal,
): Promise<Made> {
  const session = transaction.session as Session<Tx>
  const publisher = publisherOf(core, request, claimed)
  const { route } = request
  const { id } = request.claim
  const enclosing = new Enclosing({ id, route, transaction, publisher, outer: openEnclosing(core.enclosing) })
  const watched = core.guard?.watch(request, session)
  try {
    if (watched) await watched.started
    const run = { attempt: claimed.attempt, signal, running: core.running }
    const { op, limit } = startHandler(core, enclosing, request, run)
    // The last transaction of a leased operation is a part of its handler.
    const span = signal ? undefined : request.span
    const produced = await (span
      ? inSpan(span, HANDLER, () => limit.of(core.enclosing.run(enclosing, produce, op)))
      : limit.of(core.enclosing.run(enclosing, produce, op)))
    const taken = withinMs(core.clock, request.deadlineMs, publisher.take())
    const published = taken instanceof Promise ? await taken : taken
    const standing = produced.fate === 'complete' ? transaction.standing(published) : published
    const events = standing instanceof Promise ? await standing : standing
    if (watched) await watched.ended(produced, events.length)
    if (produced.fate === 'complete') checkHeld(produced.answer)
    return { answer: produced.answer, fate: produced.fate, events }
  } catch (error) {
    enclosing.end()
    const reason = await rolledBack(core, session, error)
    core.settings.observe({ kind: 'released', id: shortId(id), route })
    throw reason ?? error
  } finally {
    watched?.stop()
  }
}

/**
 * What a handler gets, and its time limit, which starts here. The handle on the transaction is revoked when the operation
 * ends.
 */
export function startHandler<Tx>(
  core: Core<Tx>,
  enclosing: Enclosing,
  { key, scope, deadlineMs }: Pick<Request, 'key' | 'scope' | 'deadlineMs'>,
  { attempt, signal = new LazySignal(), running }: HandlerRun,
): { readonly op: AtomicOperation<Tx>; readonly limit: TimeLimit } {
  const { id } = enclosing
  const publisher = enclosing.publisher as Publisher
  const handle = handleOf(core, enclosing)
  const op = new AtomicOperation({ id, key, scope, attempt, tx: handle.tx, signal, publisher })
  enclosing.onEnd(() => {
    op.end()
    handle.revoke()
  })
  const limit = new TimeLimit(core.clock, deadlineMs, signal, enclosing, running)
  limit.start()
  return { op, limit }
}

/**
 * Rolls a failed transaction back. If the session has ended, returns the reason, which is thrown instead of the error. The
 * error itself is not returned, because a promise would read its `then`.
 */
export async function rolledBack<Tx>(core: Core<Tx>, session: Session<unknown>, error: unknown): Promise<unknown> {
  // Past the deadline a query may still be running on this connection: do not make the caller wait behind it.
  const isPast = isOnceError(error, 'ONCE_DEADLINE') || core.running.isCut
  const reason = isPast ? undefined : await session.blame?.(error)
  const ended = session.rollback()
  if (!isPast) await ended
  return reason
}

/** Stores only the refusal. If another attempt was quicker, the caller gets the answer of the record. */
async function refuse<Tx>(core: Core<Tx>, request: Request, answer: Answer): Promise<Attempt> {
  checkHeld(answer)
  const stored = capped(answer)
  const view = await required(core.store, core.transactions, 'atomic').refuse({ claim: request.claim, answer: stored })
  if (!view.inserted) return rerunAtomic(core, request, async () => ({ answer, fate: 'complete' }))
  const outcome = { answer, replayed: false }
  core.settings.observe({ kind: 'refused', id: shortId(request.claim.id), route: request.route, status: answer.status })
  return { kind: 'outcome', outcome, stored: stored.kept }
}

export function publisherOf<Tx>(
  core: Core<Tx>,
  { claim, trace, span }: { readonly claim: { readonly id: string } } & Partial<Pick<Request, 'trace' | 'span'>>,
  { life }: { readonly life: string | undefined },
  origin: Origin = core.namespace,
): Publisher {
  const { events } = core.settings
  return new Publisher(events, origin, (ordinal) => deriveEventId({ id: claim.id, life, ordinal }), trace, span)
}

/** If the answer is too large to store, the first caller gets all of it, and the record is marked as unreplayable. */
export function capped(answer: Answer): Answer {
  if ((answer.body?.byteLength ?? 0) <= ANSWER_STORED_BYTES_MAX) return answer
  return { ...answer, body: null, kept: false }
}

export function checkHeld(answer: Answer): void {
  const bytes = answer.body?.byteLength ?? 0
  if (bytes > ANSWER_HELD_BYTES_MAX) {
    throw onceError('ONCE_ANSWER_TOO_LARGE', {
      detail: `The answer has ${bytes} bytes; at most ${ANSWER_HELD_BYTES_MAX} can be held until the commit`,
    })
  }
}
