import { eventsOf } from '../trace.ts'
import type { Checker } from './checker.ts'

export const oneEffect: Checker = {
  id: 'I1',
  says: 'each life of a key has at most one committed effect, and no effect is committed without its record',
  check(trace) {
    const broken: string[] = []
    const seen = new Map<string, number>()
    for (const { effects } of eventsOf(trace, 'commit')) {
      for (const { key, part, life, exec } of effects) {
        if (life === null) broken.push(`execution ${exec} of ${key} committed its effect without a record`)
        const name = `${key} ${part} ${life}`
        const before = seen.get(name)
        if (before !== undefined)
          broken.push(`executions ${before} and ${exec} of ${key} both committed '${part}' in life ${life}`)
        seen.set(name, exec)
      }
    }
    return broken
  },
}
