import type { Session } from '../store/store.ts'
import type { Core } from './core.ts'
import { turnsOf, type Enclosing } from './enclosing.ts'

/**
 * A handler's own handle on the transaction of its operation. Until the handle is revoked, it identifies its operation,
 * even for calls from another async context.
 *
 * The entry is deleted by hand. Left to the garbage collector, it would keep the whole operation alive through the young
 * generation, which doubles the cost of collecting it.
 */
export function handleOf<Tx>(core: Core<Tx>, enclosing: Enclosing): { readonly tx: Tx; revoke(): void } {
  const session = enclosing.session as Session<Tx>
  const handle = session.revocable(turnsOf(core.enclosing, enclosing))
  const { tx } = handle
  enclosing.tx = tx
  enclosing.context = core.enclosing
  core.handles.set(tx as object, enclosing)
  return {
    tx,
    revoke() {
      core.handles.delete(tx as object)
      handle.revoke()
    },
  }
}
