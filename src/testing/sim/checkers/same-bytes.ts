import { eventsOf } from '../trace.ts'
import type { Checker } from './checker.ts'

export const sameBytes: Checker = {
  id: 'I3',
  says: 'every replay equals the first answer byte for byte, and a stored answer never changes',
  check(trace) {
    const broken: string[] = []
    const texts = new Map<string, string>()
    for (const { call, key, result } of eventsOf(trace, 'outcome')) {
      if (result.is === 'error') continue
      const name = `${key} ${result.exec}`
      const first = texts.get(name) ?? result.text
      texts.set(name, first)
      if (first !== result.text) broken.push(`call ${call} of ${key} got ${result.text} where another got ${first}`)
    }
    const stored = new Map<string, string | null>()
    for (const { answers } of eventsOf(trace, 'commit')) {
      for (const { key, token, text } of answers) {
        const name = `${key} ${token}`
        if (stored.has(name)) broken.push(`the answer of ${key} was stored twice under token ${token}`)
        stored.set(name, text)
      }
    }
    return broken
  },
}
