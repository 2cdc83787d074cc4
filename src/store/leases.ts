import type { Answer } from '../lifecycle/answer.ts'
import type { ClaimView, StoredRecord } from '../lifecycle/record.ts'
import type { OperationFilter, StoredOperation } from './operations.ts'
import type { Claim, Claimed, FinishStepParams, LeaseHolder, RefuseParams } from './session.ts'

/**
 * Claims with a lease: every method is one statement that commits by itself, so no transaction is needed. A write that
 * has to be the holder's own carries the token, and the database compares it: that is the fence.
 */
export interface Leases {
  /** Claims and commits at once, with a lease. */
  claim(params: LeaseParams): Promise<{ readonly view: ClaimView; readonly claimed: Claimed | null }>
  /** Takes over a lapsed record, or renews an expired one. Null: another process was quicker. */
  takeOver(params: LeaseParams & { readonly seen: StoredRecord }): Promise<Claimed | null>
  /**
   * One statement for all leases of this process, on its own connection. Answers with the ids that are still ours. A
   * connection that does not answer within the time is given up, so that the next heartbeat has another.
   */
  heartbeat(params: HeartbeatParams): Promise<readonly string[]>
  /** Lets the lease lapse now, so that the next attempt need not wait. False when it is no longer ours. */
  release(params: LeaseHolder): Promise<boolean>
  /**
   * A final answer without rows of a transaction, fenced: refusals, and every answer of a store without transactions.
   * False when the lease is no longer ours.
   */
  finish(params: LeaseHolder & RefuseParams): Promise<boolean>
  steps(params: { readonly id: string; readonly life: string }): Promise<readonly StoredStep[]>
  /** Commits the intent of an unkeyed outside call before it is made. False when the lease is no longer ours. */
  startStep(params: LeaseHolder & { readonly life: string; readonly name: string }): Promise<boolean>
  /** Records a step's result. False when the lease is no longer ours. */
  finishStep(params: FinishStepParams): Promise<boolean>
  /** Marks the outcome unknown. False when the lease is no longer ours. */
  suspend(params: LeaseHolder): Promise<boolean>
  /**
   * An operator's word on an unknown operation; false when it is not unknown (any more). `failed` ends an abandoned
   * operation, too.
   */
  settle(params: SettleParams): Promise<boolean>
  /** In-progress operations whose lease has lapsed and whose input was sealed, oldest first. Absent: no `recover`. */
  lapsed?(params: LapsedParams): Promise<readonly LapsedOperation[]>
  /** Operations whose outcome is unknown, for the operator. Absent where records cannot be searched. */
  unknown?(params: { readonly limit: number }): Promise<readonly { readonly id: string; readonly sinceMs: number }[]>
  /** Operations that are not completed, oldest first. Absent where records cannot be searched. */
  list?(filter: OperationFilter): Promise<readonly StoredOperation[]>
  /** One operation in any state, with its sealed input. Null: there is none. */
  show?(params: {
    readonly id: string
  }): Promise<{ readonly operation: StoredOperation; readonly input: string | null } | null>
  /**
   * Ends the lease whoever holds it, and fences the holder. The next attempt may begin at once, also past the time of the
   * operation. False when a call without a key is under way or unknown, or when the operation is completed.
   */
  evict?(params: { readonly id: string } & Pick<Claim, 'replayForMs' | 'goneForMs'>): Promise<boolean>
}

export interface HeartbeatParams {
  readonly leases: readonly LeaseHolder[]
  readonly leaseMs: number
  readonly withinMs?: number
}

export interface LeaseParams {
  readonly claim: Claim
  readonly leaseMs: number
  /** The sealed input for `recover`. Null: the operation is not recoverable. */
  readonly recover: { readonly namespace: string; readonly name: string; readonly input: string } | null
  /** The text that operators see. */
  readonly about?: OperationNotes | undefined
}

export interface OperationNotes {
  readonly namespace: string
  readonly route: string
  readonly label: string | null
}

export interface StoredStep {
  readonly name: string
  readonly state: 'started' | 'done'
  /** JSON text. Null: the step was started and has not ended. */
  readonly result: string | null
}

export interface SettleParams {
  readonly claim: Claim
  readonly verdict:
    | { readonly kind: 'done'; readonly step: string; readonly result: string }
    | { readonly kind: 'rerun'; readonly step: string }
    | { readonly kind: 'failed'; readonly answer: Answer }
}

export interface LapsedParams {
  readonly limit: number
  readonly namespace: string
  /** Sealed under one of these names. Absent: under any. */
  readonly names?: readonly string[]
}

export interface LapsedOperation {
  readonly id: string
  readonly name: string
  readonly input: string
}
