import { eventsOf } from '../trace.ts'
import type { Checker } from './checker.ts'

export const apart: Checker = {
  id: 'I30',
  says: 'services that share a database or a server do not affect each other, even if they use the same names',
  check(trace) {
    return [
      ...eventsOf(trace, 'strayed').map(
        ({ event, how, process }) => `${event} was ${how} by ${process} of another service`,
      ),
      ...eventsOf(trace, 'crossed').map(
        ({ key, code }) => `${key} of another schema got ${code}, and nobody used it there`,
      ),
    ]
  },
}
