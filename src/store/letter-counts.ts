import type { LetterCounts } from './dead-letters.ts'

export type LetterGroup = LetterCounts['groups'][number]

const GROUPS_MAX = 100

/** The total counts all groups. Only the first groups are listed. */
export function countsOf(groups: readonly LetterGroup[]): LetterCounts {
  return {
    total: groups.reduce((sum, { count }) => sum + count, 0),
    oldestAt: groups.reduce<number | null>((oldest, { firstAt }) => Math.min(oldest ?? firstAt, firstAt), null),
    groups: groups.slice(0, GROUPS_MAX),
  }
}
