import { wholeNumber } from '../options.ts'
import type { DeadLetters as StoredLetters, LetterFilter } from '../store/dead-letters.ts'
import type { Redrives } from '../store/redrives.ts'
import { checkAccountable, type Accountable } from './accountable.ts'

const LIMIT_MAX = 10_000

/** Settles letters without running them, and records it in the audit. Returns how many. */
export async function discardLetters(
  stores: { readonly letters: StoredLetters; readonly redrives: Pick<Redrives<never>, 'write'> },
  of: { readonly filter: LetterFilter; readonly asked: object },
  options: Accountable & { limit?: number },
): Promise<number> {
  const { by, why } = checkAccountable(options)
  const { limit = LIMIT_MAX } = options
  wholeNumber('limit', limit, LIMIT_MAX)
  const detail = JSON.stringify({ filter: of.asked, limit })
  // The audit entry comes first: an entry without its change is harmless.
  await stores.redrives.write({ by, action: 'discard', redrive: null, why, detail })
  return stores.letters.discard({ filter: of.filter, limit })
}
