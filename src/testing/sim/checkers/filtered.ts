import { eventsOf } from '../trace.ts'
import type { Checker } from './checker.ts'

export const filtered: Checker = {
  id: 'I34',
  says: 'an event that a filter leaves out is never passed to the sink',
  check(trace) {
    const unwanted = new Set(
      eventsOf(trace, 'commit').flatMap(({ events }) => events.flatMap((of) => (of.unwanted ? [of.event] : []))),
    )
    const handed = eventsOf(trace, 'handed').flatMap(({ events }) => events)
    return handed.filter((event) => unwanted.has(event)).map((event) => `${event} was handed over against the filter`)
  },
}
