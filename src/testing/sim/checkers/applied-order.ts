import { untagged } from '../readers.ts'
import { eventsOf } from '../trace.ts'
import type { Checker } from './checker.ts'

export const appliedOrder: Checker = {
  id: '44',
  says: 'ordered events of an aggregate are applied in commit order, in whatever order they arrive',
  check(trace) {
    const broken: string[] = []
    if (!eventsOf(trace, 'relay').some(({ consumer }) => consumer?.ordered === true)) return broken
    const order = new Map<string, { place: number; aggregate: string }>()
    const last = new Map<string, { place: number; event: string }>()
    for (const commit of eventsOf(trace, 'commit')) {
      for (const { event, aggregate } of commit.events) order.set(event, { place: order.size, aggregate })
      for (const tag of commit.applied) {
        const { event, reader } = untagged(tag)
        const { place, aggregate } = order.get(event) ?? { place: -1, aggregate: '' }
        const line = `${reader} ${aggregate}`
        const before = last.get(line)
        if (before !== undefined && before.place > place)
          broken.push(`${aggregate}: ${tag} was applied after ${before.event}, and was committed before it`)
        else last.set(line, { place, event: tag })
      }
    }
    return broken
  },
}
