import { isOnceError, onceError } from '../errors.ts'
import { RERUN_BACKOFF_MS, RERUNS_MAX } from '../limits.ts'
import type { StoredRecord } from '../lifecycle/record.ts'
import { shortId } from '../observe/signal.ts'
import type { Events } from '../outbox/event.ts'
import { sleep } from '../platform/clock.ts'
import type { Claimed, LeaseParams } from '../store/store.ts'
import { capped, checkHeld, isTransient, perform, type Produce } from './atomic.ts'
import { wakeRelays, type Core } from './core.ts'
import { LazySignal } from './deadline.ts'
import type { Attempt, Outcome, Produced } from './outcome.ts'
import { resumable, type Request } from './request.ts'
import { settle, type Seat, type Settled } from './settle.ts'
import { Steps } from './step.ts'
import type { LeasedOperation } from './types.ts'

export interface LeasedRequest extends Request {
  readonly leaseMs: number
  readonly recover: LeaseParams['recover']
  /** How long another attempt may take it over, where that is not as long as its answer will be kept. */
  readonly resumableForMs?: number
}

/** How a leased handler ends: what its `commit` stored, or a refusal. Throwing anything else releases the lease. */
export type Finish =
  { readonly kind: 'committed'; readonly outcome: Outcome } | { readonly kind: 'refused'; readonly produced: Produced }

/** What a leased handler is given; `commit` takes a function that makes the final answer inside the last transaction. */
export interface LeasedTools<Tx> {
  readonly op: Omit<LeasedOperation<Tx, Events>, 'commit'>
  commit(produce: Produce<Tx>): Promise<Outcome>
}

export type LeasedProduce<Tx> = (tools: LeasedTools<Tx>) => Promise<Finish>

/** Leased mode: no transaction is open while the handler calls the outside world; the token decides who may commit. */
export async function attemptLeased<Tx>(
  core: Core<Tx>,
  request: LeasedRequest,
  produce: LeasedProduce<Tx>,
  won: () => void,
): Promise<Attempt> {
  const settled = await settleLease(core, request)
  if (settled.kind === 'busy') return settled
  if (settled.kind === 'replay') return { kind: 'outcome', outcome: settled.outcome, stored: true }
  won()
  return run(core, request, settled.claimed, produce)
}

async function settleLease<Tx>(core: Core<Tx>, request: LeasedRequest): Promise<Settled> {
  const { claim, leaseMs, recover, resumableForMs = claim.replayForMs } = request
  const { leases } = core.store
  const params = { claim: resumable(claim, resumableForMs), leaseMs, recover }
  const reread = async (): Promise<StoredRecord | null> => (await core.store.read({ id: claim.id })).record
  const seat: Seat = {
    claim: () => leases.claim(params),
    reread,
    answer: async () => (await core.store.read({ id: claim.id })).answer,
    async take(seen, sight) {
      const claimed = await leases.takeOver({ ...params, seen })
      if (!claimed) return { ...sight, record: await reread(), reread: true }
      const { attempt } = claimed
      core.settings.observe({ kind: 'takenOver', id: shortId(claim.id), route: request.route, attempt })
      return { kind: 'won', claimed }
    },
  }
  return settle(core, request, seat, await leases.claim(params))
}

async function run<Tx>(
  core: Core<Tx>,
  request: LeasedRequest,
  claimed: Claimed,
  produce: LeasedProduce<Tx>,
): Promise<Attempt> {
  const { claim, key, scope, leaseMs, deadlineMs } = request
  const { leases } = core.store
  const held = { id: claim.id, token: claimed.token }
  const signal = new LazySignal()
  const lost = (): Error => {
    const error = onceError('ONCE_LEASE_LOST')
    if (!signal.aborted) core.settings.observe({ kind: 'fenced', id: shortId(claim.id), route: request.route })
    signal.abort(error)
    return error
  }
  const letGo = core.heart.hold({ ...held, leaseMs, onLost: lost })
  const startedAt = core.clock.now()
  try {
    // A first attempt has recorded nothing yet.
    const recorded = claimed.attempt > 1 ? await leases.steps({ id: claim.id, life: claimed.life }) : []
    const steps = new Steps({ leases, ...held, life: claimed.life, deadlineMs, signal, lost }, recorded)
    const op = {
      id: claim.id,
      key,
      scope,
      attempt: claimed.attempt,
      step: steps.face(),
      get signal() {
        return signal.signal
      },
    }
    const enclosing = {
      id: claim.id,
      route: request.route,
      session: null,
      tx: undefined,
      publisher: null,
      outer: core.enclosing.get(),
      turn: undefined,
    }
    const commit = (make: Produce<Tx>): Promise<Outcome> => commitLeased(core, request, claimed, steps, signal, make)
    const finish = await core.enclosing.run(enclosing, () => produce({ op, commit }))
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
      return { kind: 'outcome', outcome: finish.outcome, stored: true }
    }
    await letGo()
    return await refuseLeased(core, request, held, finish.produced, lost)
  } catch (error) {
    await letGo()
    await release(core, request, held, error)
    throw error
  } finally {
    void letGo()
  }
}

/** The final transaction: handler, events and answer, fenced by a statement that raises in the database. */
async function commitLeased<Tx>(
  core: Core<Tx>,
  request: LeasedRequest,
  claimed: Claimed,
  steps: Steps<Tx>,
  signal: LazySignal,
  produce: Produce<Tx>,
): Promise<Outcome> {
  if (steps.pending > 0) throw onceError('ONCE_STEP_PENDING')
  for (let rerun = 1; ; rerun++) {
    try {
      return await commitOnce(core, request, claimed, signal, produce)
    } catch (error) {
      if (rerun > RERUNS_MAX || !isTransient(core, error)) throw error
      await sleep(core.clock, RERUN_BACKOFF_MS * 2 ** rerun * core.random.next())
    }
  }
}

async function commitOnce<Tx>(
  core: Core<Tx>,
  request: LeasedRequest,
  claimed: Claimed,
  signal: LazySignal,
  produce: Produce<Tx>,
): Promise<Outcome> {
  const session = await core.store.leases.open({ deadlineMs: request.deadlineMs })
  const made = await perform(core, request, session, claimed, produce, signal)
  const answer = capped(made.answer)
  const ending = await session.complete({ claim: request.claim, claimed, answer, events: made.events, fenced: true })
  if (ending !== 'committed') throw onceError('ONCE_ROLLED_BACK')
  const outcome = { answer: made.answer, replayed: false }
  wakeRelays(core, made.events.length)
  return outcome
}

async function refuseLeased<Tx>(
  core: Core<Tx>,
  request: LeasedRequest,
  held: { readonly id: string; readonly token: string },
  { answer, fate }: Produced,
  lost: () => Error,
): Promise<Attempt> {
  const outcome = { answer, replayed: false }
  if (fate === 'release') {
    await core.store.leases.release(held)
    return { kind: 'outcome', outcome, stored: false }
  }
  checkHeld(answer)
  const stored = capped(answer)
  if (!(await core.store.leases.refuse({ ...held, claim: request.claim, answer: stored }))) throw lost()
  core.settings.observe({ kind: 'refused', id: shortId(request.claim.id), route: request.route, status: answer.status })
  return { kind: 'outcome', outcome, stored: stored.kept }
}

/** The next attempt need not wait for the lease, except where a call of this attempt may still be under way. */
async function release<Tx>(
  core: Core<Tx>,
  request: Request,
  held: { readonly id: string; readonly token: string },
  error: unknown,
): Promise<void> {
  if (
    isOnceError(error, 'ONCE_LEASE_LOST') ||
    isOnceError(error, 'ONCE_STEP_PENDING') ||
    isOnceError(error, 'ONCE_OUTCOME_UNKNOWN')
  )
    return
  try {
    await core.store.leases.release(held)
    core.settings.observe({ kind: 'released', id: shortId(request.claim.id), route: request.route })
  } catch {
    // Unreachable store: the lease lapses by itself.
  }
}
