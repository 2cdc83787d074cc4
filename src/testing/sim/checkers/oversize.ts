import { eventsOf } from '../trace.ts'
import type { Checker } from './checker.ts'

export const oversize: Checker = {
  id: 'I18',
  says: 'an answer too large to store leaves a record: a retry gets that error and does not run the handler',
  check(trace) {
    const broken: string[] = []
    const large = new Set(
      eventsOf(trace, 'plan')
        .filter(({ plan }) => plan.oversize)
        .map(({ plan }) => plan.key),
    )
    if (large.size === 0) return broken
    for (const { key, records, effects } of eventsOf(trace, 'commit').flatMap((event) =>
      event.effects.map((of) => ({ ...of, ...event, key: of.key })),
    )) {
      if (!large.has(key) || effects.every((effect) => effect.part !== 'main' || effect.key !== key)) continue
      if (!records.some((change) => change.key === key && change.after !== null))
        broken.push(`${key} committed an oversize answer without a record`)
    }
    const began = new Map(eventsOf(trace, 'call').map((event) => [event.call, event]))
    const told = new Map<number, number>()
    for (const { call, key, result, t } of eventsOf(trace, 'outcome')) {
      if (!large.has(key) || result.is !== 'value') continue
      const first = told.get(result.exec) ?? t
      told.set(result.exec, first)
      // A call that attached to the first call before its answer may get the same answer.
      if ((began.get(call)?.t ?? 0) > first)
        broken.push(`call ${call} of ${key} got an answer that was too large to keep`)
    }
    return broken
  },
}
