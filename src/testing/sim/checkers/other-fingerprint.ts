import { OPERATOR } from '../clients.ts'
import { eventsOf } from '../trace.ts'
import type { Checker } from './checker.ts'

export const otherFingerprint: Checker = {
  id: 'I4',
  says: 'a call with another input never gets an answer to the first input; an honest retry never gets 422',
  check(trace) {
    const broken: string[] = []
    /** Operations that meet run with each other's inputs, so their inputs are compared as one family. */
    const families = new Map(eventsOf(trace, 'plan').map(({ plan }) => [plan.key, plan.family]))
    const inputs = new Map<string | undefined, Set<number>>()
    for (const { key, input } of eventsOf(trace, 'call')) {
      const family = families.get(key)
      inputs.set(family, (inputs.get(family) ?? new Set()).add(input))
    }
    for (const { call, key, input, result } of eventsOf(trace, 'outcome')) {
      if (result.is !== 'error') {
        const { zeta } = JSON.parse(result.text) as { zeta: number }
        if (zeta !== input && result.exec !== OPERATOR)
          broken.push(`call ${call} of ${key} with input ${input} got the answer for input ${zeta}`)
      } else if (result.code === 'ONCE_MISMATCH' && (inputs.get(families.get(key))?.size ?? 0) < 2) {
        broken.push(`call ${call} of ${key} got 422, but nobody used the key for anything else`)
      }
    }
    return broken
  },
}
