import { describeError } from '../platform/describe-error.ts'
import type { LetterReason } from '../store/dead-letters.ts'
import type { RedriveDecision } from '../store/redrives.ts'

/** The result of a letter that failed again, with its reason. */
export function failure(
  ord: number,
  reason: LetterReason,
  error: unknown,
  outcome: 'failed' | 'blocked' = 'failed',
): RedriveDecision {
  const { line, fingerprint, causes } = describeError(error)
  return { ord, outcome, reason, error: line, fingerprint, causes }
}
