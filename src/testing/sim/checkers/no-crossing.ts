import { eventsOf } from '../trace.ts'
import type { Checker } from './checker.ts'

export const noCrossing: Checker = {
  id: 'I19',
  says: 'scopes are separate: no caller gets the answer of another operation',
  check(trace) {
    /** The key of each execution. */
    const owners = new Map<number, string>()
    for (const { exec, key } of eventsOf(trace, 'run')) owners.set(exec, key)
    for (const { effects } of eventsOf(trace, 'commit'))
      for (const { exec, key } of effects) if (!key.startsWith('own-')) owners.set(exec, key)
    return eventsOf(trace, 'outcome').flatMap(({ call, key, result }) => {
      const owner = result.is === 'error' ? key : (owners.get(result.exec) ?? key)
      return owner === key ? [] : `call ${call} of ${key} got the answer of ${owner}`
    })
  },
}
