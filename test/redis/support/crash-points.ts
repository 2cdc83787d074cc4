import type { Leases, Store } from '../../../src/store/store.ts'
import { die } from '../../chaos/crashing-store.ts'

/** Where a process can be killed: before, during and after each transition, and inside the call to the provider. */
export const REDIS_POINTS = [
  'before claim',
  'during claim',
  'after claim',
  'in step',
  'before finishStep',
  'during finishStep',
  'after finishStep',
  'before finish',
  'during finish',
  'after finish',
] as const
export type RedisPoint = (typeof REDIS_POINTS)[number] | 'nowhere'

/** The same store, in a process that is killed at the named point. */
export function crashingLeases(store: Store<undefined>, crashAt: () => RedisPoint): Store<undefined> {
  const around =
    <A extends unknown[], R>(name: string, call: (...args: A) => Promise<R>) =>
    async (...args: A): Promise<R> => {
      if (crashAt() === `before ${name}`) die()
      const result = call(...args)
      if (crashAt() === `during ${name}`) {
        // The bytes leave in this turn; the reply never arrives.
        await new Promise((resolve) => setImmediate(resolve))
        die()
      }
      await result
      if (crashAt() === `after ${name}`) die()
      return result
    }
  const { claim, finishStep, finish } = store.leases
  const leases: Leases = {
    ...store.leases,
    claim: around('claim', claim),
    finishStep: around('finishStep', finishStep),
    finish: around('finish', finish),
  }
  return { ...store, leases }
}
