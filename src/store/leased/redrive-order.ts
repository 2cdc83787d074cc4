import { placeOf } from './fields.ts'
import type { Numbered } from './letters.ts'

/** The number of the first letter of each aggregate. Letters without an aggregate block no other letter. */
export function firstOf(letters: readonly Numbered[]): ReadonlyMap<string, number> {
  const first = new Map<string, number>()
  for (const { no, head } of letters) {
    if (head.aggregate !== null && !first.has(placeOf(head))) first.set(placeOf(head), no)
  }
  return first
}
