import { eventsOf } from '../trace.ts'
import type { Checker } from './checker.ts'

export const failurePolicy: Checker = {
  id: 'I15',
  says: 'a handler that throws commits nothing; a refusal commits its answer and no effect',
  check(trace) {
    const broken: string[] = []
    const ends = new Map(eventsOf(trace, 'ran').map(({ exec, how }) => [exec, how]))
    const committed = new Set<number>()
    const leased = new Set(eventsOf(trace, 'run').flatMap(({ mode, exec }) => (mode === 'leased' ? exec : [])))
    for (const { effects } of eventsOf(trace, 'commit')) {
      for (const { exec, key, part } of effects) {
        if (part !== 'main') continue
        committed.add(exec)
        if (ends.get(exec) === 'refused')
          broken.push(`execution ${exec} of ${key} refused and yet committed its effect`)
        // A leased handler throws the error of its commit, even if only the reply was lost.
        if (ends.get(exec) === 'threw' && !leased.has(exec))
          broken.push(`execution ${exec} of ${key} threw and yet committed its effect`)
      }
    }
    for (const { call, key, result } of eventsOf(trace, 'outcome')) {
      if (result.is === 'error') continue
      const how = ends.get(result.exec)
      if (how === 'threw' && !committed.has(result.exec))
        broken.push(`call ${call} of ${key} got the answer of execution ${result.exec}, which threw`)
      if (result.is === 'refusal' && how === 'returned')
        broken.push(`call ${call} of ${key} was refused by execution ${result.exec}, which returned`)
    }
    return broken
  },
}
