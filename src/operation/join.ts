import { onceError } from '../errors.ts'
import { deriveEventId } from '../key/derive.ts'
import { Publisher, type PublishOptions } from '../outbox/publisher.ts'
import { nestable, required } from '../store/lacking.ts'
import type { Session } from '../store/store.ts'
import type { Produce } from './atomic.ts'
import { wakeRelays, type Core } from './core.ts'
import {
  Enclosing,
  enclosingOf,
  inside,
  isInside,
  openEnclosing,
  type Alias,
  type EnclosingContext,
} from './enclosing.ts'
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
  return inTransaction(core, tx, 'publish', append)
}

/** Runs in the user's transaction, or as a child in the transaction of the enclosing operation. */
export function inTransaction<Tx, T>(
  core: Core<Tx>,
  tx: Tx,
  route: string,
  work: (host: Host) => Promise<T>,
): Promise<T> {
  const around = enclosingWith(core, tx)
  return around ? around.inTurn(() => work(around)) : inJoined(core, tx, route, work)
}

/**
 * Returns the enclosing operation, if `tx` is a handle on its transaction, or the transaction that it joined itself.
 */
function enclosingWith<Tx>(core: Core<Tx>, tx: unknown): Host | undefined {
  const innermost = enclosingOf(core.enclosing)
  const owner = ownerOf(core, tx)
  // In another async context, such as a queue's worker, the handle itself identifies its operation.
  if (owner?.context === core.enclosing) return innermostIn(innermost, owner.transaction) ?? owner
  const seen = owner?.aliases.find(({ context }) => context === core.enclosing)?.enclosing as Host | undefined
  if (seen) return innermostIn(innermost, seen.transaction) ?? seen
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

/** Returns the operation that owns the handle `tx`, even if it belongs to another store. */
function ownerOf<Tx>(core: Core<Tx>, tx: unknown): Host | undefined {
  const owner = isObject(tx) ? core.handles.get(tx) : undefined
  return owner?.transaction && !owner.ended ? (owner as Host) : undefined
}

/** The library does not see the user's commit, so it caches nothing: a retry reads the record. */
async function inJoined<Tx, T>(core: Core<Tx>, tx: Tx, route: string, work: (host: Host) => Promise<T>): Promise<T> {
  const outer = enclosingOf(core.enclosing)
  const owner = ownerOf(core, tx) ?? holderOf(tx)
  const join = async (turns: Turns, guests: readonly Alias[]): Promise<T> => {
    const join = required(core.store, core.transactions && core.store.join, 'join')
    const session: Session<unknown> = await join.call(core.store, tx)
    const transaction = new SharedTransaction(session, { tx, turns })
    const host = new Enclosing({ id: '', route, transaction, publisher: null, outer })
    host.tx = tx
    host.aliases = guests
    const [guest] = guests
    guest?.enclosing.enter(host)
    const letGo = held(tx, core.enclosing)
    try {
      guest?.enclosing.checkOpen()
      return await work(host as Host)
    } finally {
      letGo()
      host.end()
    }
  }
  const turns = turnsOfUsers(tx)
  const joining = owner ? asGuest(owner, join) : turns.run(() => join(turns, []))
  return outer ? outer.track(joining) : joining
}

/**
 * Runs in the transaction of another store's operation, as a child of that operation. The guest itself starts nothing:
 * only the joined operation runs in it.
 */
function asGuest<T>(owner: Host, join: (turns: Turns, guests: readonly Alias[]) => Promise<T>): Promise<T> {
  const context = owner.context as EnclosingContext
  const host = innermostIn(openEnclosing(context), owner.transaction) ?? owner
  return host.inTurn(async () => {
    host.checkOpen()
    const turns = new Turns()
    const alias = inside({ enclosing: host, context }, { id: '', turns })
    const { enclosing: guest } = alias
    host.enter(guest)
    try {
      return await context.run(guest, join, turns, [alias, ...host.aliases])
    } finally {
      guest.end()
      host.leave(guest)
    }
  })
}

const holders = new WeakMap<object, EnclosingContext[]>()

/** Returns the enclosing operation of any store that joined the user's transaction. It already has the turn. */
function holderOf(tx: unknown): Host | undefined {
  for (const context of (isObject(tx) && holders.get(tx)) || []) {
    let at = openEnclosing(context)
    while (at && (at.transaction?.joined !== tx || !at.context)) at = at.outer
    if (at) return at as Host
  }
  return undefined
}

/** Set while an operation of this store works in the user's transaction. The innermost operation comes first. */
function held(tx: unknown, context: EnclosingContext): () => void {
  if (!isObject(tx)) return () => {}
  const contexts = holders.get(tx) ?? []
  holders.set(tx, contexts)
  contexts.unshift(context)
  return () => void contexts.splice(contexts.indexOf(context), 1)
}

const joined = new WeakMap<object, Turns>()

/** Keyed by the user's own object and shared by all instances, because savepoints of one transaction cannot overlap. */
function turnsOfUsers(tx: unknown): Turns {
  if (!isObject(tx)) return new Turns()
  let turns = joined.get(tx)
  if (!turns) joined.set(tx, (turns = new Turns()))
  return turns
}

function isObject(tx: unknown): tx is object {
  return (typeof tx === 'object' && tx !== null) || typeof tx === 'function'
}
