import { isOnceError } from '../errors.ts'
import { required } from '../store/lacking.ts'
import type { LapsedOperation } from '../store/store.ts'
import type { Core } from './core.ts'
import type { Recovered, RunOptions } from './types.ts'

/** What `recover: 'name'` seals: enough to run the operation again without its caller, as its caller would. */
export interface Sealed extends Omit<RunOptions<undefined>, 'lease' | 'recover'> {
  readonly leaseMs: number
  /** JSON may change an input; what the operation means must stay the same. Absent in what earlier versions sealed. */
  readonly fingerprint?: string
  readonly fingerprintVersion?: number
}

/** Runs abandoned operations to the end, one after the other: this is housekeeping, not traffic. */
export async function recoverLapsed<Tx>(
  core: Core<Tx>,
  /** Those that somebody here can finish: others must not stand in their way. */
  { limit, names }: { readonly limit: number; readonly names: readonly string[] },
  runSealed: (operation: LapsedOperation, sealed: Sealed) => Promise<unknown>,
): Promise<Recovered> {
  const lapsed = required(core.store, core.store.leases.lapsed, 'recover')
  let finished = 0
  let left = 0
  for (const operation of await lapsed.call(core.store.leases, { limit, names, namespace: core.settings.namespace })) {
    // What is left is left to whoever comes next.
    if (core.closed) break
    try {
      await runSealed(operation, JSON.parse(operation.input) as Sealed)
      finished++
    } catch (error) {
      left++
      // Another process was quicker: nothing is wrong.
      if (!isOnceError(error, 'ONCE_IN_FLIGHT')) core.settings.observe({ kind: 'troubled', task: 'recover', error })
    }
  }
  return { finished, left }
}
