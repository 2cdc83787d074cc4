import { invalid } from '../options.ts'
import type { Events } from '../outbox/event.ts'
import type { OnceInstance } from './once.ts'
import type { Once } from './types.ts'

/**
 * Returns the internal side of an instance, for adapters of this package. Checks the shape, because a process may load
 * two copies of the package.
 */
export function instanceOf<Tx, E extends Events>(once: Once<Tx, E>): OnceInstance<Tx, E> {
  const candidate = once as Partial<OnceInstance<Tx, E>> | null | undefined
  if (typeof candidate?.atomic !== 'function' || typeof candidate.leased !== 'function') {
    throw invalid('idempotency() needs an instance made by effectivelyOnce()')
  }
  return once as OnceInstance<Tx, E>
}
