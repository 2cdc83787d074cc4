import { isOnceError, onceError } from '../errors.ts'
import { RELEASE_MS_MAX } from '../limits.ts'
import type { Answer } from '../lifecycle/answer.ts'
import type { StoredRecord } from '../lifecycle/record.ts'
import { shortId } from '../observe/signal.ts'
import { inSpan } from '../observe/tracing.ts'
import type { Events } from '../outbox/event.ts'
import { sleep } from '../platform/clock.ts'
import type { Claimed, LeaseParams, Session, Transactions } from '../store/store.ts'
import { capped, checkHeld, conflictOf, perform, publisherOf, rerunAfterConflicts, type Produce } from './atomic.ts'
import { wakeRelays, type Core } from './core.ts'
import { childrenEnded, LazySignal, TimeLimit, withinMs } from './deadline.ts'
import { Enclosing, openEnclosing } from './enclosing.ts'
import { AtomicOperation } from './operation.ts'
import { replayOf, type Attempt, type Busy, type Finish, type Holds, type Outcome, type Produced } from './outcome.ts'
import { resumable, type Request } from './request.ts'
import { notesOf } from './notes.ts'
import { settle, type ClaimAccess, type ClaimOutcome } from './settle.ts'
import { SharedTransaction } from './shared-transaction.ts'
import { Steps } from './step.ts'
import type { StreamHolder } from '../stream/stream-writer.ts'
import type { LeasedOperation } from './types.ts'

export interface LeasedRequest extends Request {
  readonly leaseMs: number
  readonly recover: LeaseParams['recover']
  /** A text for the operator. Null: none. */
  readonly label?: string | null
  /** The name for operators. Default: the route */
  readonly shownAs?: string
  /** How long another attempt may take the operation over, if that differs from how long the answer is kept. */
  readonly resumableForMs?: number
}

/** What a leased handler gets. `commit` takes a function that produces the final answer inside the last transaction. */
export interface LeasedTools<Tx> {
  readonly op: Omit<LeasedOperation<Tx, Events>, 'commit'>
  /** For recorded streams. */
  readonly holder: StreamHolder
  commit(produce: Produce<Tx>): Promise<Outcome>
}

export type LeasedProduce<Tx> = (tools: LeasedTools<Tx>) => Promise<Finish>

/** Leased mode: no transaction is open during outside calls. The token decides which attempt may commit. */
export async function attemptLeased<Tx>(
  core: Core<Tx>,
  request: LeasedRequest,
  produce: LeasedProduce<Tx>,
  won: Holds,
): Promise<Attempt> {
  const { settled, since } = await inSpan(request.span, { kind: 'claim' }, () => settleLease(core, request))
  if (settled.kind === 'busy') return settled
  if (settled.kind === 'replay') return { kind: 'outcome', outcome: settled.outcome, stored: true }
  won(true)
  return run(core, request, { ...settled.claimed, since }, produce)
}

/** The same, but a conflict of the last re-run becomes ONCE_CONFLICT. */
export function answerLeased<Tx>(
  core: Core<Tx>,
  request: LeasedRequest,
  produce: LeasedProduce<Tx>,
  won: Holds,
): Promise<Attempt> {
  return attemptLeased(core, request, produce, won).catch((error: unknown) => {
    throw conflictOf(core, error)
  })
}

/** `since`: when the statement that took the lease was sent. The lease may have lapsed before its answer came. */
async function settleLease<Tx>(
  core: Core<Tx>,
  request: LeasedRequest,
): Promise<{ readonly settled: ClaimOutcome; readonly since: number }> {
  const { claim, leaseMs, recover, label, route, shownAs = route, resumableForMs = claim.replayForMs } = request
  const { leases } = core.store
  const params = {
    claim: resumable(claim, resumableForMs),
    leaseMs,
    recover,
    about: { namespace: core.settings.namespace, ...notesOf(shownAs, label) },
  }
  const reread = async (): Promise<StoredRecord | null> => (await core.store.read({ id: claim.id })).record
  let since = 0
  const access: ClaimAccess = {
    claim() {
      since = core.clock.now()
      return leases.claim(params)
    },
    reread,
    answer: async () => (await core.store.read({ id: claim.id })).answer,
    async take(seen, view) {
      since = core.clock.now()
      const claimed = await leases.takeOver({ ...params, seen })
      if (!claimed) return { ...view, record: await reread(), reread: true }
      const { attempt } = claimed
      core.settings.observe({ kind: 'takenOver', id: shortId(claim.id), route: request.route, attempt })
      return { kind: 'won', claimed }
    },
  }
  const settled = await settle(core, request, access, await access.claim())
  return { settled, since }
}

async function run<Tx>(
  core: Core<Tx>,
  request: LeasedRequest,
  claimed: Claimed & { readonly since: number },
  produce: LeasedProduce<Tx>,
): Promise<Attempt> {
  const { claim, key, scope, leaseMs } = request
  const { leases } = core.store
  const held = { id: claim.id, token: claimed.token }
  const signal = new LazySignal()
  const lost = (): Error => {
    const error = onceError('ONCE_LEASE_LOST')
    if (!signal.aborted) core.settings.observe({ kind: 'fenced', id: shortId(claim.id), route: request.route })
    signal.abort(error)
    return error
  }
  const letGo = core.heartbeat.hold({
    ...held,
    leaseMs,
    since: claimed.since,
    onLost: lost,
    onLapsed: () => signal.abort(onceError('ONCE_LEASE_LOST')),
  })
  const isOver = (): boolean => core.heartbeat.isOver({ ...held, leaseMs })
  const enclosing = new Enclosing({
    id: claim.id,
    route: request.route,
    outer: openEnclosing(core.enclosing),
    transaction: null,
    publisher: null,
  })
  const limit = new TimeLimit(core.clock, request.endsWithinMs, signal, enclosing, core.running)
  const startedAt = core.clock.now()
  let steps: Steps<Tx> | undefined
  try {
    // A first attempt has recorded nothing yet.
    const recorded = claimed.attempt > 1 ? await leases.steps({ id: claim.id, life: claimed.life }) : []
    const check = (): void => enclosing.checkOpen()
    const holder = { ...request, ...held, life: claimed.life, signal, lost, enclosing, isOver, check }
    const made = (steps = new Steps(core, holder, recorded))
    const op = {
      id: claim.id,
      key,
      scope,
      attempt: claimed.attempt,
      step: made.face(),
      get signal() {
        return signal.signal
      },
    }
    const commit = (make: Produce<Tx>): Promise<Outcome> =>
      commitLeased(core, request, claimed, { steps: made, signal, limit, enclosing, lost }, make)
    const handler = (): Promise<Finish> =>
      core.enclosing.run(enclosing, () => made.undos.run(() => produce({ op, commit, holder })))
    const finish = await limit.run(() => inSpan(request.span, { kind: 'handler' }, handler))
    if (finish.kind === 'committed') {
      const durationMs = core.clock.now() - startedAt
      core.pace.note(request.route, durationMs)
      core.settings.observe({
        kind: 'completed',
        id: shortId(claim.id),
        route: request.route,
        durationMs,
        attempt: claimed.attempt,
      })
      return { kind: 'outcome', outcome: finish.outcome, stored: true, life: claimed.life }
    }
    if (made.unknown) throw made.unknown
    await letGo()
    const refused = await refuseLeased(core, request, held, finish.produced, lost)
    return finish.resumed ? { ...refused, outcome: replayOf(refused.outcome.answer) } : refused
  } catch (error) {
    const quiet = await letGo()
    // A heartbeat or a call may still be running, so the lease must lapse by itself before another attempt takes over.
    if (quiet && enclosing.pending === 0) {
      await briefly(core, request, steps?.unknown ? suspend(core, held) : release(core, request, held))
    }
    // Even if the handler caught this error, a retry gets the same error until the outcome of the call is settled.
    throw steps?.unknown && !isOnceError(error, 'ONCE_LEASE_LOST') ? steps.unknown : error
  } finally {
    void letGo()
  }
}

interface Committing<Tx> {
  readonly steps: Steps<Tx>
  readonly signal: LazySignal
  readonly limit: TimeLimit
  readonly enclosing: Enclosing
  readonly lost: () => Error
}

/** The final transaction: handler, events and answer. A statement that raises an error in the database fences it. */
async function commitLeased<Tx>(
  core: Core<Tx>,
  request: LeasedRequest,
  claimed: Claimed,
  committing: Committing<Tx>,
  produce: Produce<Tx>,
): Promise<Outcome> {
  const { steps, enclosing } = committing
  await childrenEnded(core.clock, enclosing)
  enclosing.checkOpen()
  if (steps.unknown) throw steps.unknown
  steps.undos.checkCommit()
  steps.close()
  const commit = (): Promise<Outcome> => commitNow(core, request, claimed, committing, produce)
  return enclosing.track(inSpan(request.span, { kind: 'commit' }, commit))
}

async function commitNow<Tx>(
  core: Core<Tx>,
  request: LeasedRequest,
  claimed: Claimed,
  committing: Committing<Tx>,
  produce: Produce<Tx>,
): Promise<Outcome> {
  const { transactions } = core
  try {
    if (!transactions) return await commitAnswer(core, request, claimed, committing, produce)
    return await rerunAfterConflicts(core, () => commitOnce(core, transactions, request, claimed, committing, produce))
  } catch (error) {
    committing.steps.open()
    throw error
  }
}

async function commitOnce<Tx>(
  core: Core<Tx>,
  transactions: Transactions<Tx>,
  request: LeasedRequest,
  claimed: Claimed,
  committing: Committing<Tx>,
  produce: Produce<Tx>,
): Promise<Outcome> {
  committing.enclosing.checkOpen()
  const transaction = new SharedTransaction(await transactions.open({ deadlineMs: request.deadlineMs }))
  const session = transaction.session as Session<Tx>
  const made = await perform(core, request, transaction, claimed, produce, committing.signal)
  const answer = capped(made.answer)
  const complete = async (): Promise<void> => {
    const ending = await session.complete({ claim: request.claim, claimed, answer, events: made.events, fenced: true })
    if (ending !== 'committed') throw onceError('ONCE_ROLLED_BACK')
  }
  const outcome = await conclude(committing, made.answer, complete, () => session.rollback())
  transaction.committed()
  wakeRelays(core, made.events.length)
  return outcome
}

/** The final answer in a store without transactions. `commit` has no `tx`, and one fenced statement stores it. */
async function commitAnswer<Tx>(
  core: Core<Tx>,
  request: LeasedRequest,
  claimed: Claimed,
  committing: Committing<Tx>,
  produce: Produce<Tx>,
): Promise<Outcome> {
  const { claim, deadlineMs, key, scope } = request
  const { attempt, token } = claimed
  const { signal } = committing
  const publisher = publisherOf(core, request, claimed)
  const tx = undefined as Tx
  const op = new AtomicOperation<Tx>({ id: claim.id, key, scope, attempt, tx, signal, publisher })
  committing.enclosing.onEnd(() => op.end())
  const { answer } = await withinMs(core.clock, deadlineMs, produce(op))
  // A store without transactions cannot publish, so every published event is refused here, even if it was not awaited.
  await withinMs(core.clock, deadlineMs, publisher.take())
  checkHeld(answer)
  return conclude(committing, answer, async () => {
    const { leases } = core.store
    if (!(await leases.finish({ id: claim.id, token, claim, answer: capped(answer) }))) throw committing.lost()
  })
}

/** From here on the database decides. No caller may be told that nothing was committed while COMMIT is being sent. */
async function conclude<Tx>(
  { limit, enclosing }: Committing<Tx>,
  answer: Answer,
  commit: () => Promise<void>,
  undo?: () => Promise<void>,
): Promise<Outcome> {
  const outcome = { answer, replayed: false }
  const resume = limit.pause()
  if (!resume) {
    await undo?.()
    throw enclosing.closed()
  }
  try {
    await commit()
    limit.conclude({ kind: 'committed', outcome } satisfies Finish)
  } finally {
    resume()
  }
  return outcome
}

async function refuseLeased<Tx>(
  core: Core<Tx>,
  request: LeasedRequest,
  held: { readonly id: string; readonly token: string },
  { answer, fate }: Produced,
  lost: () => Error,
): Promise<Exclude<Attempt, Busy>> {
  const outcome = { answer, replayed: false }
  if (fate === 'release') {
    // The answer tells what became of the calls. An error of the release must not replace it.
    await briefly(core, request, release(core, request, held))
    return { kind: 'outcome', outcome, stored: false }
  }
  checkHeld(answer)
  const stored = capped(answer)
  if (!(await core.store.leases.finish({ ...held, claim: request.claim, answer: stored }))) throw lost()
  core.settings.observe({ kind: 'refused', id: shortId(request.claim.id), route: request.route, status: answer.status })
  return { kind: 'outcome', outcome, stored: stored.kept }
}

/** If the database does not answer, the caller need not wait: the lease lapses by itself. */
async function briefly<Tx>(core: Core<Tx>, { leaseMs }: LeasedRequest, leaving: Promise<void>): Promise<void> {
  const left = new AbortController()
  await Promise.race([leaving, sleep(core.clock, Math.min(leaseMs, RELEASE_MS_MAX), left.signal)])
  left.abort()
}

/** Releases the lease, so that the next attempt need not wait. By its token, it touches no other attempt's lease. */
async function release<Tx>(
  core: Core<Tx>,
  request: Request,
  held: { readonly id: string; readonly token: string },
): Promise<void> {
  try {
    await core.store.leases.release(held)
    core.settings.observe({ kind: 'released', id: shortId(request.claim.id), route: request.route })
  } catch {
    // Unreachable store: the lease lapses by itself.
  }
}

/** Suspends the operation until its outcome is settled. If the store is unreachable, the next attempt does it. */
async function suspend<Tx>(core: Core<Tx>, held: { readonly id: string; readonly token: string }): Promise<void> {
  await core.store.leases.suspend(held).catch(() => false)
}
