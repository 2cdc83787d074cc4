import { eventsOf } from '../trace.ts'
import type { Checker } from './checker.ts'

export const stableKeys: Checker = {
  id: 'I17',
  says: 'a step has one outside key per life, on every attempt, and no two steps share one',
  check(trace) {
    const broken: string[] = []
    const keyOf = new Map<string, string>()
    const stepOf = new Map<string, string>()
    for (const { key, life, step, derived, exec } of eventsOf(trace, 'provider')) {
      if (life === null) continue
      const name = `${key} ${life} ${step}`
      const known = keyOf.get(name) ?? derived
      const other = stepOf.get(derived) ?? name
      if (known !== derived) broken.push(`execution ${exec} called ${name} under another key than before`)
      if (other !== name) broken.push(`${other} and ${name} share an outside key`)
      keyOf.set(name, known)
      stepOf.set(derived, other)
    }
    return broken
  },
}
