import { isOnceError } from '../errors.ts'
import { required } from '../store/lacking.ts'
import type { LapsedOperation, Store } from '../store/store.ts'
import type { Observe } from '../observe/signal.ts'
import type { Recovered, RunOptions } from './types.ts'

/** What `recover: 'name'` stores: everything that is needed to run the operation again without its caller. */
export interface Sealed extends Omit<RunOptions<undefined>, 'lease' | 'recover'> {
  readonly leaseMs: number
  /**
   * JSON may change an input, but the fingerprint must stay the same. Absent in inputs that earlier versions stored.
   */
  readonly fingerprint?: string
  readonly fingerprintVersion?: number
}

/** Runs one abandoned operation to its end. */
export type Recoverer = (operation: LapsedOperation) => Promise<unknown>

interface Recovering<Tx> {
  readonly store: Store<Tx>
  readonly settings: { readonly namespace: string; readonly observe: Observe }
  readonly closing: boolean
}

/** Runs abandoned operations to the end, one after the other, because this background work must not disturb traffic. */
export async function recoverLapsed<Tx>(
  core: Recovering<Tx>,
  /** The names that this instance can finish. Other operations must not block them. */
  recoverers: ReadonlyMap<string, Recoverer>,
  limit: number,
): Promise<Recovered> {
  const lapsed = required(core.store, core.store.leases.lapsed, 'recover')
  const names = [...recoverers.keys()]
  let finished = 0
  let left = 0
  for (const operation of await lapsed.call(core.store.leases, { limit, names, namespace: core.settings.namespace })) {
    // The next call handles the rest.
    if (core.closing) break
    try {
      await recoverers.get(operation.name)?.(operation)
      finished++
    } catch (error) {
      left++
      // Another process was quicker: nothing is wrong.
      if (!isOnceError(error, 'ONCE_IN_FLIGHT')) core.settings.observe({ kind: 'troubled', task: 'recover', error })
    }
  }
  return { finished, left }
}
