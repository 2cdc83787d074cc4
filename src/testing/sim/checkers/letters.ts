import { eventsOf } from '../trace.ts'
import type { Checker } from './checker.ts'

export const letters: Checker = {
  id: 'I23, 32',
  says: 'a dead letter states its reason and its number of attempts',
  check(trace) {
    return eventsOf(trace, 'letter').flatMap(({ event, state, reason, attempts }) => {
      if (state !== 'parked' && state !== 'skipped') return []
      const isUntried = reason === 'behind' || reason === 'unknownType'
      if (reason !== null && (isUntried || attempts > 0)) return []
      return `${event} is ${state} as '${reason}' after ${attempts} attempts: nobody can know why`
    })
  },
}
