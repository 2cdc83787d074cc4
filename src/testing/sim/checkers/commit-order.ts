import { eventsOf } from '../trace.ts'
import type { Checker } from './checker.ts'

export const commitOrder: Checker = {
  id: 'I8',
  says: 'the events of an aggregate first arrive in commit order, except those that were delayed or skipped',
  check(trace) {
    const broken: string[] = []
    const order = new Map<string, { place: number; free: boolean }>()
    let place = 0
    for (const { events } of eventsOf(trace, 'commit'))
      for (const { event, delayed } of events) order.set(event, { place: ++place, free: delayed })
    // A skipped event no longer counts in the order.
    for (const { event, state } of eventsOf(trace, 'held')) {
      const known = order.get(event)
      if (known !== undefined && state === 'skipped') known.free = true
    }
    const last = new Map<string, { place: number; event: string }>()
    for (const { event, aggregate, first } of eventsOf(trace, 'accept')) {
      const known = order.get(event)
      if (!first || known === undefined || known.free) continue
      const before = last.get(aggregate)
      if (before !== undefined && before.place > known.place)
        broken.push(`${aggregate}: ${event} arrived after ${before.event}, and was committed before it`)
      else last.set(aggregate, { place: known.place, event })
    }
    return broken
  },
}

/** The number of events out of order, for reports. */
export function orderBreaks(violations: readonly string[]): number {
  return violations.filter((violation) => violation.startsWith('I8:')).length
}
