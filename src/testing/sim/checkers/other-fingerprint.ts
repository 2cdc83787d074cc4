import { eventsOf } from '../trace.ts'
import type { Checker } from './checker.ts'

export const otherFingerprint: Checker = {
  id: 'I4',
  says: 'another input never gets an answer that is not its own; an honest retry never gets 422',
  check(trace) {
    const broken: string[] = []
    const inputs = new Map<string, Set<number>>()
    for (const { key, input } of eventsOf(trace, 'call')) inputs.set(key, (inputs.get(key) ?? new Set()).add(input))
    for (const { call, key, input, result } of eventsOf(trace, 'outcome')) {
      if (result.is !== 'error') {
        const { zeta } = JSON.parse(result.text) as { zeta: number }
        if (zeta !== input) broken.push(`call ${call} of ${key} with input ${input} got the answer for input ${zeta}`)
      } else if (result.code === 'ONCE_MISMATCH' && others(inputs.get(key), trace, key).size < 2) {
        broken.push(`call ${call} of ${key} got 422, but nobody used the key for anything else`)
      }
    }
    return broken
  },
}

/** A nested operation is called with its outer one's input, and its refusal is the outer one's: they count together. */
function others(
  inputs: ReadonlySet<number> | undefined,
  trace: Parameters<Checker['check']>[0],
  key: string,
): Set<number> {
  const all = new Set(inputs)
  const family = key.replace(/-inner$/, '')
  for (const event of eventsOf(trace, 'call')) if (event.key.replace(/-inner$/, '') === family) all.add(event.input)
  return all
}
