import { claimBatch, userStatement } from './batch.ts'
import { claim, readAnswer, renew, reread } from './claim.ts'
import { append, complete, completeLeased, refuse, refuseLeased } from './complete.ts'
import { heartbeat, lapsed, release, settle, suspend, takeOver, unknown } from './lease.ts'
import { finishStep, startStep, steps } from './steps.ts'
import { dropAnswers, suspendLapsed, sweepRecords } from './sweep.ts'

/** Every statement the store sends, by name; the simulator replaces single ones by wrong ones and must notice. */
export interface Statements {
  readonly append: typeof append
  readonly claim: typeof claim
  readonly claimBatch: typeof claimBatch
  readonly complete: typeof complete
  readonly completeLeased: typeof completeLeased
  readonly dropAnswers: typeof dropAnswers
  readonly finishStep: typeof finishStep
  readonly heartbeat: typeof heartbeat
  readonly lapsed: typeof lapsed
  readonly readAnswer: typeof readAnswer
  readonly refuse: typeof refuse
  readonly refuseLeased: typeof refuseLeased
  readonly release: typeof release
  readonly renew: typeof renew
  readonly reread: typeof reread
  readonly settle: typeof settle
  readonly startStep: typeof startStep
  readonly steps: typeof steps
  readonly suspend: typeof suspend
  readonly suspendLapsed: typeof suspendLapsed
  readonly sweepRecords: typeof sweepRecords
  readonly takeOver: typeof takeOver
  readonly unknown: typeof unknown
  readonly userStatement: typeof userStatement
}

export const STATEMENTS: Statements = {
  append,
  claim,
  claimBatch,
  complete,
  completeLeased,
  dropAnswers,
  finishStep,
  heartbeat,
  lapsed,
  readAnswer,
  refuse,
  refuseLeased,
  release,
  renew,
  reread,
  settle,
  startStep,
  steps,
  suspend,
  suspendLapsed,
  sweepRecords,
  takeOver,
  unknown,
  userStatement,
}
