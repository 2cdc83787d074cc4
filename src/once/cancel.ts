import { onceError } from '../errors.ts'
import { invalid } from '../options.ts'
import type { Core } from '../operation/core.ts'
import { enclosingOf } from '../operation/enclosing.ts'
import { inTransaction } from '../operation/join.ts'
import type { Host } from '../operation/nested.ts'
import { nestable } from '../store/lacking.ts'
import type { Cancellation } from '../store/cancellation.ts'
import type { EventRow, Session } from '../store/store.ts'
import { outboxOf } from './resend.ts'
import { UUID } from '../platform/uuid.ts'

/** Cancels in the transaction of the enclosing operation, or else in a transaction of its own. */
export async function cancelNow<Tx>(core: Core<Tx>, id: string): Promise<Cancellation> {
  const work = cancelling(core, id)
  const outer = enclosingOf(core.enclosing)
  if (outer?.transaction) return outer.inTurn(() => work(outer as Host))
  return outboxOf(core).cancel({ id, namespace: 0 })
}

/** Cancels in the user's transaction. */
export async function cancelJoined<Tx>(core: Core<Tx>, tx: Tx, id: string): Promise<Cancellation> {
  return inTransaction(core, tx, 'cancel', cancelling(core, id))
}

function cancelling<Tx>(core: Core<Tx>, id: unknown): (host: Host) => Promise<Cancellation> {
  if (core.closed) throw onceError('ONCE_CLOSED')
  if (typeof id !== 'string' || !UUID.test(id)) throw invalid('id must be the id of an event')
  return async (host) => {
    const session = nestable(core.store, host.transaction.session, 'join')
    const namespace = await core.namespace.lookIn(session as Session<Tx>)
    return session.cancel({ id, namespace, unwritten: await unwrittenOf(host, id) })
  }
}

/**
 * Finds an event that this transaction published and has not written yet. Events are written when the operation ends.
 */
async function unwrittenOf({ transaction, publisher, outer }: Host, id: string): Promise<EventRow | undefined> {
  const found = (await publisher?.take())?.find((row) => row.id === id)
  return found || outer?.transaction !== transaction ? found : unwrittenOf(outer as Host, id)
}
