import { onceError, type OnceError } from '../errors.ts'
import type { Answer } from '../lifecycle/answer.ts'
import type { Decision } from '../lifecycle/decide.ts'
import { RETRY_AFTER_MS_MIN } from '../limits.ts'

/** What a caller gets: an answer, and whether anything ran for it. */
export interface Outcome {
  readonly answer: Answer
  readonly replayed: boolean
}

/** The answer of a handler, and whether it is stored, refused or released. */
export interface Produced {
  readonly answer: Answer
  readonly fate: 'complete' | 'refuse' | 'release'
}

/**
 * How a leased handler ends: with the answer of its `commit`, or with a refusal. Any other throw releases the lease.
 * `resumed`: an earlier attempt refused, and this attempt has ended the undo.
 */
export type Finish =
  | { readonly kind: 'committed'; readonly outcome: Outcome }
  | { readonly kind: 'refused'; readonly produced: Produced; readonly resumed?: boolean }

/** The result of one attempt: an outcome, or the key is running elsewhere. */
export type Attempt =
  | {
      readonly kind: 'outcome'
      readonly outcome: Outcome
      /** Others may have it. */
      readonly stored: boolean
      /** The life that this attempt completed. Absent: the answer was read, or its life is not known. */
      readonly life?: string
    }
  | Busy

export interface Busy {
  readonly kind: 'busy'
  readonly retryAfterMs: number | null
}

/** The refusals that follow directly from a decision. */
export function refusalOf(decision: Decision): OnceError {
  switch (decision.do) {
    case 'mismatch':
      return onceError('ONCE_MISMATCH')
    case 'gone':
      return onceError('ONCE_GONE')
    case 'unknown':
      return onceError('ONCE_OUTCOME_UNKNOWN')
    default:
      return onceError('ONCE_INVARIANT', { detail: `'${decision.do}' is not a refusal` })
  }
}

export function inFlightError(retryAfterMs: number): OnceError {
  return onceError('ONCE_IN_FLIGHT', { retryAfterMs: Math.max(RETRY_AFTER_MS_MIN, Math.ceil(retryAfterMs)) })
}

/** A stored answer as a replay. A live record without its answer is unreplayable: never expired, never run again. */
export function replayOf(answer: Answer | null): Outcome {
  if (!answer?.kept) throw onceError('ONCE_UNREPLAYABLE')
  return { answer, replayed: true }
}

/** An attempt reports that it holds the key, or is about to release it. */
export type Holds = (holds: boolean) => void
