import { allSteps, type Case, isWeb } from './case.ts'
import { isUnanswered, kindsOf } from './kinds.ts'

/** What the oracle must know of a handler, because the wire does not tell it. */
export interface Hints {
  /** Nobody answers in time: the deadline is short. */
  readonly brief?: true
  /** It announces a length that is not the one of its bytes. */
  readonly misjudges?: true
  readonly throwsAfterAnswer?: true
  /** The status of a stream that breaks. */
  readonly breaks?: number
  /** The status of the first of several answers. */
  readonly firstOfTwo?: number
}

export function hintsOf(one: Case): Hints {
  const kinds = kindsOf(one)
  const [first, second] = allSteps(one.steps).flatMap((step) => (step.do === 'answer' ? [step.answer] : []))
  const broken = first?.is === 'stream' && first.failsAt !== null
  return {
    ...(isUnanswered(one) && !isWeb(one) ? { brief: true } : {}),
    ...(kinds.has('wrong length') ? { misjudges: true } : {}),
    ...(kinds.has('thrown after an answer') ? { throwsAfterAnswer: true } : {}),
    ...(broken ? { breaks: first.status } : {}),
    ...(first && second ? { firstOfTwo: first.status } : {}),
  }
}
