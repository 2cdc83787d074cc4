import { onceError } from '../errors.ts'
import type { Core } from '../operation/core.ts'
import { enclosingOf } from '../operation/enclosing.ts'
import { inTransaction } from '../operation/join.ts'
import type { Host } from '../operation/nested.ts'
import { invalid } from '../operation/settings.ts'
import { nestable, required } from '../store/lacking.ts'
import type { Cancellation } from '../store/outbox.ts'
import type { EventRow, Session } from '../store/store.ts'
import { outboxOf } from './resend.ts'

const UUID = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i

/** In the transaction of the operation around this call, or else in one of its own. */
export async function cancelNow<Tx>(core: Core<Tx>, id: string): Promise<Cancellation> {
  const checked = check(core, id)
  const outer = enclosingOf(core.enclosing)
  if (outer?.transaction) return outer.inTurn(() => cancelIn(core, outer as Host, checked))
  const outbox = outboxOf(core)
  return required(core.store, outbox.cancel, 'cancel').call(outbox, { id: checked, namespace: 0 })
}

/** In the user's transaction. */
export async function cancelJoined<Tx>(core: Core<Tx>, tx: Tx, id: string): Promise<Cancellation> {
  const checked = check(core, id)
  return inTransaction(core, tx, 'cancel', (host) => cancelIn(core, host, checked))
}

async function cancelIn<Tx>(core: Core<Tx>, host: Host, id: string): Promise<Cancellation> {
  const session = nestable(core.store, host.transaction.session, 'join')
  const { no } = core.namespace.originIn(session as Session<Tx>)
  const namespace = typeof no === 'number' ? no : await no()
  const unwritten = await unwrittenOf(host, id)
  return required(core.store, session.cancel, 'cancel').call(session, { id, namespace, unwritten })
}

/** What the operations of this transaction published is written when the outermost one ends. */
async function unwrittenOf({ transaction, publisher, outer }: Host, id: string): Promise<EventRow | undefined> {
  const found = await publisher?.find(id)
  return found || outer?.transaction !== transaction ? found : unwrittenOf(outer as Host, id)
}

function check<Tx>(core: Core<Tx>, id: unknown): string {
  if (core.closed) throw onceError('ONCE_CLOSED')
  if (typeof id !== 'string' || !UUID.test(id)) throw invalid('cancel() needs the id of an event')
  return id.toLowerCase()
}
