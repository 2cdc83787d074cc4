import { eventsOf } from '../trace.ts'
import type { Checker } from './checker.ts'

export const risingTokens: Checker = {
  id: 'I11',
  says: 'the tokens of a key only increase, even across a sweep',
  check(trace) {
    const broken: string[] = []
    const highest = new Map<string, number>()
    for (const { records } of eventsOf(trace, 'commit')) {
      for (const { key, before, after } of records) {
        if (after === null || after.token === before?.token) continue
        const last = highest.get(key) ?? 0
        if (after.token <= last) broken.push(`${key} got token ${after.token} after ${last}`)
        highest.set(key, Math.max(last, after.token))
      }
    }
    return broken
  },
}
