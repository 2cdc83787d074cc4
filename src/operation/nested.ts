import { onceError } from '../errors.ts'
import { inSpan } from '../observe/tracing.ts'
import { nestable } from '../store/lacking.ts'
import type { Claimed, EventRow, Savepoint, Session, SqlSession } from '../store/store.ts'
import { capped, checkHeld, publisherOf, startHandler, type Produce } from './atomic.ts'
import { wakeRelays, type Core } from './core.ts'
import { withinMs } from './deadline.ts'
import { Enclosing, inContextsOf, isInside, makeAliases } from './enclosing.ts'
import { inFlightError, type Outcome, type Produced } from './outcome.ts'
import type { Request } from './request.ts'
import { settleInside } from './settle-claim.ts'
import type { SharedTransaction } from './shared-transaction.ts'
import { traced } from './traced.ts'
import { Turns } from './turns.ts'

/** An enclosing operation, or the user's own transaction. */
export interface Host extends Enclosing {
  readonly transaction: SharedTransaction
}

/**
 * An operation inside another transaction, under a savepoint: a `run` or `batched` inside a `run`, or `join(tx).run`.
 * Its record commits with the host, or not at all. A failure rolls back to the savepoint.
 */
export function runNested<Tx>(core: Core<Tx>, host: Host, request: Request, produce: Produce<Tx>): Promise<Outcome> {
  if (isInside(host, request.claim.id)) return Promise.reject(inFlightError(0))
  return host.inTurn(() => nest(core, host, request, produce))
}

/** The same for a caller that already has the turn. */
export function nest<Tx>(core: Core<Tx>, host: Host, request: Request, produce: Produce<Tx>): Promise<Outcome> {
  const { tracing } = core.settings
  if (!tracing) return nestNow(core, host, request, produce)
  return traced(core, tracing, request, () => nestNow(core, host, request, produce))
}

async function nestNow<Tx>(core: Core<Tx>, host: Host, request: Request, produce: Produce<Tx>): Promise<Outcome> {
  host.checkOpen()
  const savepoint = openSavepoint(host, await nestable(core.store, host.transaction.session, 'nested').savepoint())
  let settled
  try {
    settled = await settleInside(core, request, host)
    host.checkOpen()
  } catch (error) {
    await savepoint.rollback()
    throw error
  }
  if (settled.kind === 'won') return run(core, host, request, settled.claimed, savepoint, produce)
  await savepoint.rollback()
  if (settled.kind === 'busy') throw inFlightError(settled.retryAfterMs ?? core.pace.retryAfterMs(request.route))
  return settled.outcome
}

/**
 * After the host has ended, its own rollback undoes the savepoint. A later statement would reach a transaction that is
 * no longer ours.
 */
function openSavepoint(host: Host, savepoint: Savepoint): Savepoint {
  return {
    release() {
      host.checkOpen()
      return savepoint.release()
    },
    rollback: () => (host.ended ? Promise.resolve() : savepoint.rollback()),
  }
}

async function run<Tx>(
  core: Core<Tx>,
  host: Host,
  request: Request,
  claimed: Claimed,
  savepoint: Savepoint,
  produce: Produce<Tx>,
): Promise<Outcome> {
  const { transaction } = host
  const since = transaction.waiting
  const rollBack = async (): Promise<void> => {
    transaction.forget(since)
    await savepoint.rollback()
  }
  let produced: Produced
  try {
    const made = await perform(core, host, request, claimed, produce)
    produced = made.produced
    checkHeld(produced.answer)
    if (produced.fate === 'complete') {
      await complete(core, host, { claim: request.claim, claimed, answer: capped(produced.answer) }, made.events)
      await savepoint.release()
    }
  } catch (error) {
    await rollBack()
    throw error
  }
  const { answer, fate } = produced
  const outcome: Outcome = { answer, replayed: false }
  if (fate === 'complete') return outcome
  await rollBack()
  if (fate === 'release') return outcome
  // The refusal's record commits or rolls back with the host. The refused rows and events are gone.
  const again = await settleInside(core, request, host)
  if (again.kind !== 'won') throw onceError('ONCE_CONFLICT', { detail: 'A nested refusal lost its claim' })
  await complete(core, host, { claim: request.claim, claimed: again.claimed, answer: capped(answer) }, [])
  return outcome
}

async function complete<Tx>(
  core: Core<Tx>,
  host: Host,
  params: Omit<Parameters<SqlSession<Tx>['completeInside']>[0], 'events' | 'fenced'>,
  events: readonly EventRow[],
): Promise<void> {
  host.checkOpen()
  const { transaction, publisher: adopting } = host
  const { claim, claimed } = params
  // Inside a run, the outer completing statement writes the events, so that a transaction takes its shard locks in
  // ascending order.
  const written = adopting ? [] : await transaction.standing(events)
  await nestable(core.store, transaction.session, 'nested').completeInside({
    ...params,
    events: written,
    fenced: false,
  })
  adopting?.adopt(events)
  const inside = { claim, token: claimed.token, events: adopting ? events : [] }
  transaction.completed(inside, () => wakeRelays(core, events.length))
}

async function perform<Tx>(
  core: Core<Tx>,
  host: Host,
  request: Request,
  claimed: Claimed,
  produce: Produce<Tx>,
): Promise<{ produced: Produced; events: readonly EventRow[] }> {
  const { transaction } = host
  const { name, no } = core.namespace.originIn(transaction.session as Session<Tx>)
  // Register the namespace before the handler opens a savepoint. Otherwise a rollback of that savepoint would undo the
  // number.
  const known = typeof no === 'number' ? no : await no()
  host.checkOpen()
  const publisher = publisherOf(core, request, claimed, { name, no: known })
  const { id } = request.claim
  const enclosing: Enclosing = new Enclosing({
    id,
    route: request.route,
    transaction,
    publisher,
    outer: host,
    turns: new Turns(),
  })
  const aliases = host.aliases.length > 0 ? makeAliases(host, enclosing, core.enclosing) : host.aliases
  const work: Produce<Tx> = aliases.length > 0 ? (given) => inContextsOf(aliases, () => produce(given)) : produce
  host.enter(enclosing)
  try {
    const { op, limit } = startHandler(core, enclosing, request, claimed)
    const handler = (): Promise<Produced> => limit.of(core.enclosing.run(enclosing, work, op))
    const produced = await inSpan(request.span, { kind: 'handler' }, handler)
    return { produced, events: await withinMs(core.clock, request.deadlineMs, publisher.take()) }
  } finally {
    enclosing.end()
    host.leave(enclosing)
  }
}
