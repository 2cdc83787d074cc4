import { eventsOf } from '../trace.ts'
import type { Checker } from './checker.ts'

export const parked: Checker = {
  id: 'I23',
  says: 'a parked event keeps its reason or waits behind an event that has one; no observer gets a false signal',
  check(trace) {
    const broken: string[] = []
    const aggregates = new Map<string, string>()
    for (const { events } of eventsOf(trace, 'commit'))
      for (const { event, aggregate } of events) aggregates.set(event, aggregate)
    /** The events that were ever parked with a reason. */
    const told = new Set<string>()
    const heads = new Set<string>()
    const given = new Map<string, string>()
    /** The number of events that an operator skipped. */
    let skips = 0
    for (const happened of trace) {
      if (happened.kind === 'held') {
        const { event, state, reason, attempts } = happened
        const up = state === 'parked' || state === 'skipped'
        if (!up) given.delete(event)
        else given.set(event, state)
        if (up && ((reason !== null && attempts > 0) || (state === 'skipped' && skips > 0))) {
          told.add(event)
          heads.add(aggregates.get(event) ?? '')
        }
      } else if (happened.kind === 'audit' && happened.action === 'parked skip') {
        skips += 1
        // The signal follows the write, so the event may have been released meanwhile.
      } else if (happened.kind === 'parked' && !told.has(happened.event)) {
        broken.push(`${happened.process} told that ${happened.event} is parked, and it is not`)
      }
    }
    for (const [event, state] of given) {
      if (told.has(event) || (state === 'parked' && heads.has(aggregates.get(event) ?? ''))) continue
      broken.push(`${event} is ${state}, and nobody can know why`)
    }
    return broken
  },
}
