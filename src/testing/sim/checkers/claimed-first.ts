import { eventsOf } from '../trace.ts'
import type { Checker } from './checker.ts'

export const claimedFirst: Checker = {
  id: 'I22',
  says: 'no handler runs without a claim, whatever happened to the store',
  check(trace) {
    return eventsOf(trace, 'run')
      .filter(({ holds }) => !holds)
      .map(({ exec, key }) => `execution ${exec} of ${key} started without a claim`)
  },
}
