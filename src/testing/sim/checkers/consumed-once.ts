import { eventsOf } from '../trace.ts'
import type { Checker } from './checker.ts'

export const consumedOnce: Checker = {
  id: 'I9',
  says: 'a consumer applies each event it was sent at most once, and at least once unless a dead letter has it',
  check(trace) {
    const broken: string[] = []
    if (!eventsOf(trace, 'relay').some(({ consumer }) => consumer !== null)) return broken
    const applied = new Map<string, number>()
    for (const event of eventsOf(trace, 'commit').flatMap((commit) => commit.applied)) {
      const times = (applied.get(event) ?? 0) + 1
      applied.set(event, times)
      if (times > 1) broken.push(`${event} was applied ${times} times`)
    }
    const letters = new Set(eventsOf(trace, 'letter').flatMap(({ event, state }) => (state === null ? [] : event)))
    for (const { event, first } of eventsOf(trace, 'accept')) {
      if (first && !applied.has(event) && !letters.has(event))
        broken.push(`${event} was sent, and neither applied nor set aside`)
    }
    return broken
  },
}
