import { eventsOf } from '../trace.ts'
import type { Checker } from './checker.ts'

export const sweeper: Checker = {
  id: 'I14',
  says: 'only completed records past their retention are removed, by the clock of the database',
  check(trace) {
    const broken: string[] = []
    for (const { records, now } of eventsOf(trace, 'commit')) {
      for (const { key, before, after } of records) {
        if (before === null || after !== null) continue
        if (before.state !== 'completed') broken.push(`${key} was removed while ${before.state}`)
        else if (before.forgetAt / 1000 > now + 1)
          broken.push(`${key} was removed ${(before.forgetAt / 1000 - now).toFixed(1)} ms too early`)
      }
    }
    return broken
  },
}
