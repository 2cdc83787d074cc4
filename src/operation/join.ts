import { onceError } from '../errors.ts'
import { deriveEventId } from '../key/derive.ts'
import { Publisher, type PublishOptions } from '../outbox/publisher.ts'
import { nestable, required } from '../store/lacking.ts'
import type { Session } from '../store/store.ts'
import type { Produce } from './atomic.ts'
import { wakeRelays, type Core } from './core.ts'
import { Enclosing, isInside, openEnclosing } from './enclosing.ts'
import { nest, runNested, type Host } from './nested.ts'
import { inFlightError, type Outcome } from './outcome.ts'
import type { Request } from './request.ts'
import { SharedTransaction } from './shared-transaction.ts'
import { Turns } from './turns.ts'

/** `join(tx).run`: the record and the effect commit with the user's own transaction. */
export function runJoined<Tx>(core: Core<Tx>, tx: Tx, request: Request, produce: Produce<Tx>): Promise<Outcome> {
  const around = enclosingWith(core, tx)
  if (around) return runNested(core, around, request, produce)
  return inJoined(core, tx, request.route, (host) => {
    if (isInside(host, request.claim.id)) throw inFlightError(0)
    return nest(core, host, request, produce)
  })
}

/** `join(tx).publish`: written at once, under the shard's lock until the user's commit. Publish last. */
export async function publishJoined<Tx>(
  core: Core<Tx>,
  tx: Tx,
  type: string,
  data: unknown,
  options?: PublishOptions,
): Promise<string> {
  const { settings, namespace, random } = core
  if (core.closed) throw onceError('ONCE_CLOSED')
  const append = async ({ transaction }: Host): Promise<string> => {
    const { session } = transaction
    const origin = namespace.originIn(session as Session<Tx>)
    const publisher = new Publisher(settings.events, origin, (ordinal) =>
      deriveEventId({ id: random.uuid(), life: undefined, ordinal }),
    )
    const id = await publisher.publish(type, data, options)
    await nestable(core.store, session, 'join').append(await publisher.take())
    transaction.afterCommit(() => wakeRelays(core, 1))
    return id
  }
  const around = enclosingWith(core, tx)
  return around ? around.inTurn(() => append(around)) : inJoined(core, tx, 'publish', append)
}

/** The operation around this call, where `tx` is a handle on its transaction, or the transaction it joined itself. */
function enclosingWith<Tx>(core: Core<Tx>, tx: unknown): Host | undefined {
  const innermost = openEnclosing(core.enclosing)
  const owner = isObject(tx) ? core.handles.get(tx) : undefined
  // Called from another context, such as a queue's worker, the handle itself tells whose it is.
  if (owner?.transaction && !owner.ended) return innermostIn(innermost, owner.transaction) ?? (owner as Host)
  for (let at = innermost; at?.transaction; at = at.outer) {
    if (at.tx === tx || at.transaction.joined === tx) return innermostIn(innermost, at.transaction)
  }
  return undefined
}

function innermostIn(innermost: Enclosing | undefined, transaction: SharedTransaction): Host | undefined {
  let at = innermost
  while (at && (at.ended || at.transaction !== transaction)) at = at.outer
  return at as Host | undefined
}

/** Nobody here sees the user's commit, so nothing is remembered: a retry reads the record. */
async function inJoined<Tx, T>(core: Core<Tx>, tx: Tx, route: string, work: (host: Host) => Promise<T>): Promise<T> {
  const outer = openEnclosing(core.enclosing)
  const turns = turnsOfUsers(tx)
  const joining = turns.run(async () => {
    const join = required(core.store, core.transactions && core.store.join, 'join')
    const session: Session<unknown> = await join.call(core.store, tx)
    const transaction = new SharedTransaction(session, { tx, turns })
    const host = new Enclosing({ id: '', route, transaction, publisher: null, outer })
    host.tx = tx
    try {
      return await work(host as Host)
    } finally {
      host.end()
    }
  })
  return outer ? outer.track(joining) : joining
}

const joined = new WeakMap<object, Turns>()

/** By the user's own object, for all instances: savepoints of one transaction cannot overlap, whoever opens them. */
function turnsOfUsers(tx: unknown): Turns {
  if (!isObject(tx)) return new Turns()
  let turns = joined.get(tx)
  if (!turns) joined.set(tx, (turns = new Turns()))
  return turns
}

function isObject(tx: unknown): tx is object {
  return (typeof tx === 'object' && tx !== null) || typeof tx === 'function'
}
