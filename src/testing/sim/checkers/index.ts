import type { TraceEvent } from '../trace.ts'
import { answeredIsCommitted } from './answered-is-committed.ts'
import { answered } from './answered.ts'
import { apart } from './apart.ts'
import { audited } from './audited.ts'
import { blame } from './blame.ts'
import { bounded } from './bounded.ts'
import { appliedOrder } from './applied-order.ts'
import type { Checker } from './checker.ts'
import { noCrossing } from './no-crossing.ts'
import { cancelled } from './cancelled.ts'
import { claimedFirst } from './claimed-first.ts'
import { commitOrder } from './commit-order.ts'
import { consumedOnce } from './consumed-once.ts'
import { converges } from './converges.ts'
import { declaredEdges } from './declared-edges.ts'
import { erased } from './erased.ts'
import { erasedAnswer } from './erased-answer.ts'
import { exactRefusals } from './exact-refusals.ts'
import { expiry } from './expiry.ts'
import { failurePolicy } from './failure-policy.ts'
import { fenced } from './fenced.ts'
import { finishedSteps } from './finished-steps.ts'
import { givenUp } from './given-up.ts'
import { leaseKept } from './lease-kept.ts'
import { letters } from './letters.ts'
import { noneLost } from './none-lost.ts'
import { oneEffect } from './one-effect.ts'
import { oneRuns } from './one-runs.ts'
import { otherFingerprint } from './other-fingerprint.ts'
import { filtered } from './filtered.ts'
import { oversize } from './oversize.ts'
import { parked } from './parked.ts'
import { paused } from './paused.ts'
import { publishedIffCommitted } from './published-iff-committed.ts'
import { rated } from './rated.ts'
import { redriven } from './redriven.ts'
import { risingTokens } from './rising-tokens.ts'
import { sameBytes } from './same-bytes.ts'
import { setAside } from './set-aside.ts'
import { stableKeys } from './stable-keys.ts'
import { told } from './told.ts'
import { stopped } from './stopped.ts'
import { sweeper } from './sweeper.ts'
import { undone } from './undone.ts'
import { wholeRecord } from './whole-record.ts'
import { withItsOuter } from './with-its-outer.ts'

export type { Checker } from './checker.ts'

export const CHECKERS: readonly Checker[] = [
  oneEffect,
  answeredIsCommitted,
  sameBytes,
  otherFingerprint,
  oneRuns,
  publishedIffCommitted,
  noneLost,
  commitOrder,
  consumedOnce,
  appliedOrder,
  parked,
  letters,
  setAside,
  redriven,
  told,
  audited,
  fenced,
  risingTokens,
  declaredEdges,
  expiry,
  sweeper,
  failurePolicy,
  finishedSteps,
  stableKeys,
  oversize,
  noCrossing,
  bounded,
  converges,
  claimedFirst,
  exactRefusals,
  withItsOuter,
  wholeRecord,
  answered,
  blame,
  leaseKept,
  apart,
  cancelled,
  paused,
  rated,
  filtered,
  erased,
  erasedAnswer,
  undone,
  stopped,
  givenUp,
]

/** All violations, each with the number of its invariant. */
export function violations(trace: readonly TraceEvent[]): string[] {
  return CHECKERS.flatMap(({ id, check }) => check(trace).map((what) => `${id}: ${what}`))
}
