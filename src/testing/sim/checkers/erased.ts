import { isErased } from '../../../lifecycle/record.ts'
import { eventsOf } from '../trace.ts'
import type { EventOf, TraceEvent } from '../trace.ts'
import type { Checker } from './checker.ts'

export const erased: Checker = {
  id: 'I35',
  says: 'only completed operations are erased; the process that erased gives no answer of them to later calls',
  check(trace) {
    const broken: string[] = []
    for (const { records } of eventsOf(trace, 'commit')) {
      for (const { key, before, after } of records) {
        if (after === null || !isErased(after)) continue
        if (before?.state !== 'completed') broken.push(`${key} was erased while ${before?.state ?? 'new'}`)
        if (after.expiresAt < after.forgetAt)
          broken.push(`${key} was erased, and may be renewed before it is forgotten`)
      }
    }
    const calls = new Map(eventsOf(trace, 'call').map((call) => [call.call, call]))
    for (const { call, key, result, record } of eventsOf(trace, 'outcome')) {
      const began = calls.get(call)
      if (result.is !== 'value' || !began?.record || !isErased(began.record)) continue
      // In a new life the operation runs again.
      if (record?.life !== began.record.life || !hasErased(trace, began)) continue
      broken.push(`call ${call} of ${key} was answered by the process that erased the operation before`)
    }
    return broken
  },
}

/** Whether this process ended an erasure before the call, and this life of the operation was erased by then. */
function hasErased(trace: readonly TraceEvent[], { process, key, t, record }: EventOf<'call'>): boolean {
  const isErasedHere = (of: EventOf<'commit'>['records'][number]): boolean =>
    of.key === key && of.after !== null && of.after.life === record?.life && isErased(of.after)
  const at = trace.findIndex((event) => event.kind === 'commit' && event.records.some(isErasedHere))
  return trace.slice(at).some((event) => event.kind === 'erased' && event.process === process && event.t < t)
}
