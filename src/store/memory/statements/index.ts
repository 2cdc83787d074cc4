import { failed, tries, trying } from './attempts.ts'
import { claimBatch, userStatement } from './batch.ts'
import { claim, readAnswer, renew, reread } from './claim.ts'
import { append, complete, completeLeased, refuse, refuseLeased } from './complete.ts'
import { completeInbox, enterMessage, lookAt, openConsumer, passPositions, positionsOf, takeMessages } from './inbox.ts'
import { heartbeat, lapsed, release, settle, suspend, takeOver, unknown } from './lease.ts'
import { blocked, due, fenceShards, nextDue, promoteHeld, settleHeld } from './held.ts'
import { countLetters, discardLetters, getLetter, listLetters, parkLetters } from './letters.ts'
import {
  ack,
  beat,
  cursors,
  destinations,
  forgetDestination,
  leaseShards,
  openDestination,
  readEvents,
  releaseShards,
} from './relay.ts'
import { resend } from './resend.ts'
import { finishStep, startStep, steps } from './steps.ts'
import { sweepInbox } from './sweep-inbox.ts'
import { dropAnswers, suspendLapsed, sweepRecords } from './sweep.ts'

/** Every statement the store sends, by name; the simulator replaces single ones by wrong ones and must notice. */
export interface Statements {
  readonly ack: typeof ack
  readonly append: typeof append
  readonly beat: typeof beat
  readonly blocked: typeof blocked
  readonly claim: typeof claim
  readonly claimBatch: typeof claimBatch
  readonly complete: typeof complete
  readonly completeInbox: typeof completeInbox
  readonly completeLeased: typeof completeLeased
  readonly countLetters: typeof countLetters
  readonly cursors: typeof cursors
  readonly destinations: typeof destinations
  readonly discardLetters: typeof discardLetters
  readonly dropAnswers: typeof dropAnswers
  readonly due: typeof due
  readonly enterMessage: typeof enterMessage
  readonly failed: typeof failed
  readonly fenceShards: typeof fenceShards
  readonly finishStep: typeof finishStep
  readonly forgetDestination: typeof forgetDestination
  readonly getLetter: typeof getLetter
  readonly heartbeat: typeof heartbeat
  readonly lapsed: typeof lapsed
  readonly leaseShards: typeof leaseShards
  readonly listLetters: typeof listLetters
  readonly lookAt: typeof lookAt
  readonly nextDue: typeof nextDue
  readonly openConsumer: typeof openConsumer
  readonly openDestination: typeof openDestination
  readonly parkLetters: typeof parkLetters
  readonly passPositions: typeof passPositions
  readonly positionsOf: typeof positionsOf
  readonly promoteHeld: typeof promoteHeld
  readonly readAnswer: typeof readAnswer
  readonly readEvents: typeof readEvents
  readonly refuse: typeof refuse
  readonly refuseLeased: typeof refuseLeased
  readonly release: typeof release
  readonly releaseShards: typeof releaseShards
  readonly renew: typeof renew
  readonly reread: typeof reread
  readonly resend: typeof resend
  readonly settle: typeof settle
  readonly settleHeld: typeof settleHeld
  readonly startStep: typeof startStep
  readonly steps: typeof steps
  readonly suspend: typeof suspend
  readonly suspendLapsed: typeof suspendLapsed
  readonly sweepInbox: typeof sweepInbox
  readonly sweepRecords: typeof sweepRecords
  readonly takeMessages: typeof takeMessages
  readonly takeOver: typeof takeOver
  readonly tries: typeof tries
  readonly trying: typeof trying
  readonly unknown: typeof unknown
  readonly userStatement: typeof userStatement
}

export const STATEMENTS: Statements = {
  ack,
  append,
  beat,
  blocked,
  claim,
  claimBatch,
  complete,
  completeInbox,
  completeLeased,
  countLetters,
  cursors,
  destinations,
  discardLetters,
  dropAnswers,
  due,
  enterMessage,
  failed,
  fenceShards,
  finishStep,
  forgetDestination,
  getLetter,
  heartbeat,
  lapsed,
  leaseShards,
  listLetters,
  lookAt,
  nextDue,
  openConsumer,
  openDestination,
  parkLetters,
  passPositions,
  positionsOf,
  promoteHeld,
  readAnswer,
  readEvents,
  refuse,
  refuseLeased,
  release,
  releaseShards,
  renew,
  reread,
  resend,
  settle,
  settleHeld,
  startStep,
  steps,
  suspend,
  suspendLapsed,
  sweepInbox,
  sweepRecords,
  takeMessages,
  takeOver,
  tries,
  trying,
  unknown,
  userStatement,
}
