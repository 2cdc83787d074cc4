import { eventsOf } from '../trace.ts'
import type { Checker } from './checker.ts'

export const converges: Checker = {
  id: 'I21',
  says: 'without faults every call is decided and the world rests within a bound; no claim waits for a handler',
  check(trace) {
    const broken: string[] = []
    for (const { phase, undecided } of eventsOf(trace, 'end')) {
      if (phase === 'bound')
        broken.push(`${undecided} clients were not decided within the bound, or something never rests`)
    }
    for (const { op, behind, interactive } of eventsOf(trace, 'wait')) {
      // COMMIT follows the fence of a leased commit at once, so such a wait is not a wait for a handler.
      if (!interactive || behind === 'completeLeased' || behind === 'finishStep') continue
      if (/^(claim|claimBatch|renew)$/.test(op)) broken.push(`${op} waited for another operation's transaction`)
    }
    return broken
  },
}
