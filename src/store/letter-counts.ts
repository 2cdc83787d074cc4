import type { LetterCounts, LetterReason } from './dead-letters.ts'
import type { Row } from './store.ts'

export type LetterGroup = LetterCounts['groups'][number]

const GROUPS_MAX = 100

/** A row by the names both databases give it. */
export function groupOf(row: Row): LetterGroup {
  return {
    consumer: String(row['consumer']),
    fingerprint: String(row['fingerprint']),
    reason: row['reason'] as LetterReason,
    error: row['error'] as string | null,
    count: Number(row['count']),
    firstAt: Number(row['first_at']),
    lastAt: Number(row['last_at']),
  }
}

/** All groups, the largest first. All are counted, the first are told. */
export function countsOf(groups: readonly LetterGroup[]): LetterCounts {
  return {
    total: groups.reduce((sum, { count }) => sum + count, 0),
    oldestAt: groups.reduce<number | null>((oldest, { firstAt }) => Math.min(oldest ?? firstAt, firstAt), null),
    groups: groups.slice(0, GROUPS_MAX),
  }
}
