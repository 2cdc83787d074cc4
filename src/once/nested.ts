import { onceError } from '../errors.ts'
import type { Events } from '../outbox/event.ts'
import type { Claimed, EventRow, Savepoint, Session } from '../store/store.ts'
import { capped, checkHeld, publisherOf, type Produce } from './atomic.ts'
import type { Core } from './core.ts'
import { LazySignal } from './deadline.ts'
import { isInside, type Enclosing } from './enclosing.ts'
import { AtomicOperation } from './operation.ts'
import { inFlightError, type Outcome, type Produced } from './outcome.ts'
import type { Request } from './request.ts'
import { settleClaim } from './settle-claim.ts'
import type { Operation } from './types.ts'

/** The transaction a nested operation lives and dies with. */
export interface Host<Tx> {
  readonly session: Session<Tx>
  readonly tx: Tx
  readonly enclosing: Enclosing
}

/**
 * An operation inside somebody else's transaction, under a savepoint: a `run` inside a `run`, or `join(tx).run`. Its
 * record commits with the host, or not at all; its failure heals at the savepoint.
 */
export async function runNested<Tx>(
  core: Core<Tx>,
  host: Host<Tx>,
  request: Request,
  produce: Produce<Tx>,
): Promise<Outcome> {
  if (isInside(host.enclosing, request.claim.id)) throw inFlightError(0)
  const before = host.enclosing.turn
  let done: () => void = () => {}
  host.enclosing.turn = new Promise((resolve) => (done = resolve))
  try {
    await before
    return await nest(core, host, request, produce)
  } finally {
    done()
  }
}

async function nest<Tx>(core: Core<Tx>, host: Host<Tx>, request: Request, produce: Produce<Tx>): Promise<Outcome> {
  const { session } = host
  const savepoint = await session.savepoint()
  let settled
  try {
    settled = await settleClaim(core, request, session, await session.claim(request.claim))
  } catch (error) {
    await savepoint.rollback()
    throw error
  }
  if (settled.kind === 'won') return run(core, host, request, settled.claimed, savepoint, produce)
  await savepoint.rollback()
  if (settled.kind === 'busy') throw inFlightError(settled.retryAfterMs ?? core.pace.retryAfterMs(request.route))
  return settled.outcome
}

async function run<Tx>(
  core: Core<Tx>,
  host: Host<Tx>,
  request: Request,
  claimed: Claimed,
  savepoint: Savepoint,
  produce: Produce<Tx>,
): Promise<Outcome> {
  let produced: Produced
  let events: readonly EventRow[]
  try {
    ;({ produced, events } = await perform(core, host, request, claimed, produce))
    checkHeld(produced.answer)
  } catch (error) {
    await savepoint.rollback()
    throw error
  }
  const { answer, fate } = produced
  const outcome: Outcome = { answer, replayed: false }
  const stored = capped(answer)
  if (fate === 'complete') {
    await complete(host, { claim: request.claim, claimed, answer: stored }, events)
    await savepoint.release()
  } else {
    await savepoint.rollback()
    if (fate === 'release') return outcome
    // The refusal's record lives or dies with the host; the rows and events it refused are gone.
    const again = await settleClaim(core, request, host.session, await host.session.claim(request.claim))
    if (again.kind !== 'won') throw onceError('ONCE_CONFLICT', { detail: 'A nested refusal lost its claim' })
    await complete(host, { claim: request.claim, claimed: again.claimed, answer: stored }, [])
  }
  return outcome
}

async function complete<Tx>(
  host: Host<Tx>,
  params: Omit<Parameters<Session<Tx>['completeInside']>[0], 'events' | 'fenced'>,
  events: readonly EventRow[],
): Promise<void> {
  // Inside a run the outer completing statement writes them: one ascending order of shard locks per transaction.
  const adopt = host.enclosing.publisher
  await host.session.completeInside({ ...params, events: adopt ? [] : events, fenced: false })
  adopt?.adopt(events)
}

async function perform<Tx>(
  core: Core<Tx>,
  host: Host<Tx>,
  request: Request,
  claimed: Claimed,
  produce: Produce<Tx>,
): Promise<{ produced: Produced; events: readonly EventRow[] }> {
  const publisher = publisherOf(core, request, claimed)
  const { id } = request.claim
  const op: AtomicOperation<Tx> & Operation<Tx, Events> = new AtomicOperation({
    id,
    key: request.key,
    scope: request.scope,
    attempt: claimed.attempt,
    tx: host.tx,
    signal: new LazySignal(),
    publisher,
  })
  const enclosing: Enclosing = {
    ...host.enclosing,
    id,
    route: request.route,
    publisher,
    outer: host.enclosing,
    turn: undefined,
  }
  try {
    const produced = await core.enclosing.run(enclosing, () => produce(op))
    return { produced, events: await publisher.take() }
  } finally {
    op.end()
  }
}
