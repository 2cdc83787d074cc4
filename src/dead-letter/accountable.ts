import { REDRIVE_WHY_LENGTH_MAX } from '../limits.ts'
import { invalid } from '../options.ts'
import { isStorable } from '../platform/storable.ts'

/** Who makes a change, and why. The audit records both. */
export interface Accountable {
  by: string
  why: string
}

/** Every change needs a name and a reason. */
export function checkAccountable(given: Accountable): Accountable {
  for (const name of ['by', 'why'] as const) {
    const text: unknown = given?.[name]
    if (typeof text !== 'string' || text.trim() === '' || !isStorable(text) || text.length > REDRIVE_WHY_LENGTH_MAX) {
      const what = name === 'by' ? 'who does it' : 'the reason'
      throw invalid(`${name} must say ${what}, in at most ${REDRIVE_WHY_LENGTH_MAX} characters`)
    }
  }
  return { by: given.by, why: given.why }
}
