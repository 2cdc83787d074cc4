import { eventsOf } from '../trace.ts'
import type { Checker } from './checker.ts'

export const apart: Checker = {
  id: 'I30',
  says: 'services that share a database, or a server, have nothing else in common, whatever they call it',
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
