import { isOnceError } from '../errors.ts'
import type { LapsedOperation } from '../store/store.ts'
import type { Core } from './core.ts'
import type { Recovered } from './types.ts'

/** What `recover: 'name'` seals: enough to run the operation again without its caller. */
export interface Sealed {
  readonly scope: string
  readonly key: string
  readonly input: unknown
  readonly leaseMs: number
}

/** Runs abandoned operations to the end, one after the other: this is housekeeping, not traffic. */
export async function recoverLapsed<Tx>(
  core: Core<Tx>,
  limit: number,
  runSealed: (operation: LapsedOperation, sealed: Sealed) => Promise<void> | null,
): Promise<Recovered> {
  let finished = 0
  let left = 0
  for (const operation of await core.store.leases.lapsed({ limit, namespace: core.settings.namespace })) {
    try {
      const run = runSealed(operation, JSON.parse(operation.input) as Sealed)
      if (run === null) left++
      else {
        await run
        finished++
      }
    } catch (error) {
      left++
      // Another process was quicker: nothing is wrong.
      if (!isOnceError(error, 'ONCE_IN_FLIGHT')) core.settings.observe({ kind: 'troubled', task: 'recover', error })
    }
  }
  return { finished, left }
}
