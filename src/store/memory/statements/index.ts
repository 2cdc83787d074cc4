import { lockMessage } from './applied.ts'
import { failed, tries, trying, untry } from './attempts.ts'
import { claimBatch, userStatement } from './batch.ts'
import { appendChunk, readChunks } from './chunks.ts'
import { claim, readAnswer, renew, reread } from './claim.ts'
import { append, complete, completeLeased, refuse, refuseLeased } from './complete.ts'
import { completeInbox, enterMessage, lookAt, openConsumer, passPositions, positionsOf, takeMessages } from './inbox.ts'
import { cancel, takeDelayed } from './delayed.ts'
import { eraseEvents, eraseLetters, eraseRecords } from './erase.ts'
import { evict, listOperations, showOperation } from './operation.ts'
import { heartbeat, lapsed, release, settle, suspend, takeOver, unknown } from './lease.ts'
import {
  blocked,
  due,
  fenceShards,
  heldBefore,
  nextDue,
  promoteHeld,
  settleHeld,
  tryHeld,
  unparkOrphans,
} from './held.ts'
import { countLetters, discardLetters, getLetter, listLetters, lockLetters, parkLetters } from './letters.ts'
import { listNamespaces, lockNamespaces, registerNamespace } from './namespace.ts'
import { listParked, lockShard, parkedLines, settleParked } from './parked.ts'
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
import {
  beatRedrive,
  claimRedrive,
  consumerSeen,
  decideRedrive,
  importLetters,
  readAudit,
  releaseRedrive,
  settleRedrive,
  sweepRedrives,
} from './redrive-run.ts'
import {
  changeRedrive,
  copyRedrive,
  createRedrive,
  extendRedrive,
  planRedrive,
  readRedrives,
  redriveItems,
  writeAudit,
} from './redrive.ts'
import { resend } from './resend.ts'
import { findSteps, finishStep, startStep, steps } from './steps.ts'
import { sweepInbox } from './sweep-inbox.ts'
import { dropAnswers, suspendLapsed, sweepRecords } from './sweep.ts'

/**
 * Every statement that the store sends, by name. The simulator replaces single statements by wrong ones, and must
 * detect each of them.
 */
export interface Statements {
  readonly ack: typeof ack
  readonly append: typeof append
  readonly appendChunk: typeof appendChunk
  readonly beat: typeof beat
  readonly beatRedrive: typeof beatRedrive
  readonly blocked: typeof blocked
  readonly cancel: typeof cancel
  readonly changeRedrive: typeof changeRedrive
  readonly claim: typeof claim
  readonly claimBatch: typeof claimBatch
  readonly claimRedrive: typeof claimRedrive
  readonly complete: typeof complete
  readonly completeInbox: typeof completeInbox
  readonly completeLeased: typeof completeLeased
  readonly consumerSeen: typeof consumerSeen
  readonly copyRedrive: typeof copyRedrive
  readonly countLetters: typeof countLetters
  readonly createRedrive: typeof createRedrive
  readonly extendRedrive: typeof extendRedrive
  readonly cursors: typeof cursors
  readonly decideRedrive: typeof decideRedrive
  readonly destinations: typeof destinations
  readonly discardLetters: typeof discardLetters
  readonly dropAnswers: typeof dropAnswers
  readonly due: typeof due
  readonly enterMessage: typeof enterMessage
  readonly eraseEvents: typeof eraseEvents
  readonly eraseLetters: typeof eraseLetters
  readonly eraseRecords: typeof eraseRecords
  readonly evict: typeof evict
  readonly failed: typeof failed
  readonly fenceShards: typeof fenceShards
  readonly findSteps: typeof findSteps
  readonly finishStep: typeof finishStep
  readonly forgetDestination: typeof forgetDestination
  readonly getLetter: typeof getLetter
  readonly heldBefore: typeof heldBefore
  readonly heartbeat: typeof heartbeat
  readonly importLetters: typeof importLetters
  readonly lapsed: typeof lapsed
  readonly leaseShards: typeof leaseShards
  readonly listLetters: typeof listLetters
  readonly listOperations: typeof listOperations
  readonly listParked: typeof listParked
  readonly listNamespaces: typeof listNamespaces
  readonly lockLetters: typeof lockLetters
  readonly lockShard: typeof lockShard
  readonly lockMessage: typeof lockMessage
  readonly lockNamespaces: typeof lockNamespaces
  readonly lookAt: typeof lookAt
  readonly nextDue: typeof nextDue
  readonly openConsumer: typeof openConsumer
  readonly openDestination: typeof openDestination
  readonly parkLetters: typeof parkLetters
  readonly parkedLines: typeof parkedLines
  readonly passPositions: typeof passPositions
  readonly planRedrive: typeof planRedrive
  readonly positionsOf: typeof positionsOf
  readonly promoteHeld: typeof promoteHeld
  readonly readAnswer: typeof readAnswer
  readonly readAudit: typeof readAudit
  readonly readChunks: typeof readChunks
  readonly readEvents: typeof readEvents
  readonly readRedrives: typeof readRedrives
  readonly redriveItems: typeof redriveItems
  readonly refuse: typeof refuse
  readonly refuseLeased: typeof refuseLeased
  readonly registerNamespace: typeof registerNamespace
  readonly release: typeof release
  readonly releaseRedrive: typeof releaseRedrive
  readonly releaseShards: typeof releaseShards
  readonly renew: typeof renew
  readonly reread: typeof reread
  readonly resend: typeof resend
  readonly settle: typeof settle
  readonly settleHeld: typeof settleHeld
  readonly settleParked: typeof settleParked
  readonly settleRedrive: typeof settleRedrive
  readonly showOperation: typeof showOperation
  readonly startStep: typeof startStep
  readonly steps: typeof steps
  readonly suspend: typeof suspend
  readonly suspendLapsed: typeof suspendLapsed
  readonly sweepInbox: typeof sweepInbox
  readonly sweepRecords: typeof sweepRecords
  readonly sweepRedrives: typeof sweepRedrives
  readonly takeDelayed: typeof takeDelayed
  readonly takeMessages: typeof takeMessages
  readonly takeOver: typeof takeOver
  readonly tries: typeof tries
  readonly tryHeld: typeof tryHeld
  readonly unparkOrphans: typeof unparkOrphans
  readonly trying: typeof trying
  readonly untry: typeof untry
  readonly unknown: typeof unknown
  readonly userStatement: typeof userStatement
  readonly writeAudit: typeof writeAudit
}

export const STATEMENTS: Statements = {
  ack,
  append,
  appendChunk,
  beat,
  beatRedrive,
  blocked,
  cancel,
  changeRedrive,
  claim,
  claimBatch,
  claimRedrive,
  complete,
  completeInbox,
  completeLeased,
  consumerSeen,
  copyRedrive,
  countLetters,
  createRedrive,
  extendRedrive,
  cursors,
  decideRedrive,
  destinations,
  discardLetters,
  dropAnswers,
  due,
  enterMessage,
  eraseEvents,
  eraseLetters,
  eraseRecords,
  evict,
  failed,
  fenceShards,
  findSteps,
  finishStep,
  forgetDestination,
  getLetter,
  heldBefore,
  heartbeat,
  importLetters,
  lapsed,
  leaseShards,
  listLetters,
  listOperations,
  listParked,
  listNamespaces,
  lockLetters,
  lockShard,
  lockMessage,
  lockNamespaces,
  lookAt,
  nextDue,
  openConsumer,
  openDestination,
  parkLetters,
  parkedLines,
  passPositions,
  planRedrive,
  positionsOf,
  promoteHeld,
  readAnswer,
  readAudit,
  readChunks,
  readEvents,
  readRedrives,
  redriveItems,
  refuse,
  refuseLeased,
  registerNamespace,
  release,
  releaseRedrive,
  releaseShards,
  renew,
  reread,
  resend,
  settle,
  settleHeld,
  settleParked,
  settleRedrive,
  showOperation,
  startStep,
  steps,
  suspend,
  suspendLapsed,
  sweepInbox,
  sweepRecords,
  sweepRedrives,
  takeDelayed,
  takeMessages,
  takeOver,
  tries,
  tryHeld,
  unparkOrphans,
  trying,
  untry,
  unknown,
  userStatement,
  writeAudit,
}
