import { newCharge, newKey } from '../support/charge.ts'
import type { Charge } from '../support/charge.ts'
import { CALLERS } from '../support/database.ts'
import type { BenchOnce } from '../support/database.ts'
import type { Scenario } from '../support/measure.ts'
import { chargeOnce } from './atomic.ts'
import { batchedCharge } from './batched.ts'

/** Many more than callers: no two callers have the same key at the same time. */
const KEYS = 2000

/** A retry that this process has never seen: the cache is emptied before each. */
export async function replayDatabase(once: BenchOnce): Promise<Scenario> {
  const next = await completedKeys(once)
  return {
    name: 'replayDatabase',
    callers: CALLERS,
    operate() {
      once.core.cache.clear()
      return next()
    },
  }
}

/** A retry that this process has answered before. */
export async function replayCache(once: BenchOnce): Promise<Scenario> {
  const next = await completedKeys(once)
  for (let i = 0; i < KEYS; i++) await next()
  return { name: 'replayCache', callers: CALLERS, operate: next }
}

async function completedKeys(once: BenchOnce): Promise<() => Promise<unknown>> {
  const charge = batchedCharge(once)
  const known = Array.from({ length: KEYS }, (): [string, Charge] => [newKey(), newCharge()])
  await Promise.all(known.map(([key, input]) => charge(key, input)))
  let at = 0
  return () => {
    const [key, input] = known[at++ % KEYS] as [string, Charge]
    return chargeOnce(once, key, input)
  }
}
