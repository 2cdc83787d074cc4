import { untagged } from '../readers.ts'
import { eventsOf } from '../trace.ts'
import type { Checker } from './checker.ts'

export const cancelled: Checker = {
  id: 'I31',
  says: 'a cancelled event is never sent or applied; a due event is never cancelled',
  check(trace) {
    const broken: string[] = []
    const gone = new Set(eventsOf(trace, 'cancelled').map(({ event }) => event))
    const due = new Set<string>()
    for (const happened of trace) {
      if (happened.kind === 'accept' && gone.has(happened.event))
        broken.push(`${happened.event} was cancelled, and sent`)
      else if (happened.kind === 'commit') {
        for (const event of happened.applied.map((tag) => untagged(tag).event).filter((of) => gone.has(of)))
          broken.push(`${event} was cancelled, and applied`)
      } else if (happened.kind === 'cancelled' && due.has(happened.event))
        broken.push(`${happened.event} was cancelled after somebody was told that it is due`)
      else if (happened.kind === 'cancel') {
        if (happened.answer === 'due') due.add(happened.event)
        if (happened.answer === 'cancelled' && !gone.has(happened.event))
          broken.push(`somebody was told that ${happened.event} is cancelled, and it is not`)
      }
    }
    return broken
  },
}
