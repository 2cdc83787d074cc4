import { tagOf } from '../readers.ts'
import { eventsOf } from '../trace.ts'
import type { Checker } from './checker.ts'

export const consumedOnce: Checker = {
  id: 'I9',
  says: 'a consumer applies each sent event at most once, and at least once unless it becomes a dead letter',
  check(trace) {
    const broken: string[] = []
    const readers = eventsOf(trace, 'relay').flatMap((relay) => relay.readers)
    if (readers.length === 0) return broken
    const applied = new Map<string, number>()
    for (const event of eventsOf(trace, 'commit').flatMap((commit) => commit.applied)) {
      const times = (applied.get(event) ?? 0) + 1
      applied.set(event, times)
      if (times > 1) broken.push(`${event} was applied ${times} times`)
    }
    const letters = new Set(eventsOf(trace, 'letter').flatMap(({ event, state }) => (state === null ? [] : event)))
    for (const { event, first } of eventsOf(trace, 'accept')) {
      for (const tag of first ? readers.map((reader) => tagOf(reader, event)) : []) {
        if (!applied.has(tag) && !letters.has(tag)) broken.push(`${tag} was sent, and neither applied nor set aside`)
      }
    }
    return broken
  },
}
