import type { Answer } from '../lifecycle/answer.ts'
import type { ClaimView, StoredRecord } from '../lifecycle/record.ts'
import type { FoundStep, OperationFilter, StepFilter, StoredOperation } from './operations.ts'
import type { Claim, Claimed, FinishStepParams, LeaseHolder, RefuseParams } from './session.ts'

/**
 * Claims with a lease. Every method is one statement that commits by itself, so no transaction is needed. A write that
 * only the holder may make carries the token, and the database compares the token: that is the fence.
 */
export interface Leases {
  /** Claims a key with a lease, and commits at once. */
  claim(params: LeaseParams): Promise<{ readonly view: ClaimView; readonly claimed: Claimed | null }>
  /** Takes over a lapsed record, or renews an expired one. Null: another process was quicker. */
  takeOver(params: LeaseParams & { readonly seen: StoredRecord }): Promise<Claimed | null>
  /**
   * Renews all leases of this process with one statement, on its own connection. Returns the ids that this process
   * still holds. If the connection does not answer in time, the store closes it, and the next heartbeat uses another.
   */
  heartbeat(params: HeartbeatParams): Promise<readonly string[]>
  /** Lets the lease lapse now, so that the next attempt need not wait. False: another attempt holds the lease. */
  release(params: LeaseHolder): Promise<boolean>
  /**
   * Stores a final answer without a transaction, if this attempt still holds the lease. Used for refusals, and for
   * every answer of a store without transactions. False: another attempt holds the lease.
   */
  finish(params: LeaseHolder & RefuseParams): Promise<boolean>
  steps(params: { readonly id: string; readonly life: string }): Promise<readonly StoredStep[]>
  /** Records that an outside call without a key is about to be made. False: another attempt holds the lease. */
  startStep(params: LeaseHolder & { readonly life: string; readonly name: string }): Promise<boolean>
  /** Records a step's result. False: another attempt holds the lease. */
  finishStep(params: FinishStepParams): Promise<boolean>
  /** Marks the outcome as unknown. False: another attempt holds the lease. */
  suspend(params: LeaseHolder): Promise<boolean>
  /**
   * Records an operator's verdict on an unknown operation. `failed` also ends an abandoned operation. False: the
   * operation is in another state.
   */
  settle(params: SettleParams): Promise<boolean>
  /**
   * Lists operations in progress whose lease has lapsed and whose input is stored, oldest first. Absent: no `recover`.
   */
  lapsed?(params: LapsedParams): Promise<readonly LapsedOperation[]>
  /** Lists operations whose outcome is unknown. Absent if records cannot be searched. */
  unknown?(params: { readonly limit: number }): Promise<readonly { readonly id: string; readonly sinceMs: number }[]>
  /** Lists operations that are not completed, oldest first. Absent if records cannot be searched. */
  list?(filter: OperationFilter): Promise<readonly StoredOperation[]>
  /** Finds the recorded steps of one name, in every life, ordered by operation and life. Absent: no search. */
  findSteps?(filter: StepFilter): Promise<readonly FoundStep[]>
  /** Returns one operation in any state, with its stored input. Null: there is no such operation. */
  show?(params: {
    readonly id: string
  }): Promise<{ readonly operation: StoredOperation; readonly input: string | null } | null>
  /**
   * Ends a lease, no matter who holds it, and fences the holder. The next attempt may begin at once, even after
   * `replayFor`. False: the operation is completed, or the outcome of a call without a key is open.
   */
  evict?(params: { readonly id: string } & Pick<Claim, 'replayForMs' | 'goneForMs'>): Promise<boolean>
}

export interface HeartbeatParams {
  readonly leases: readonly LeaseHolder[]
  readonly leaseMs: number
  readonly withinMs?: number
  /** Called for each lease of which the store cannot say whether it was renewed, because its server did not answer. */
  unsure?(id: string, error: unknown): void
}

export interface LeaseParams {
  readonly claim: Claim
  readonly leaseMs: number
  /** The input to store for `recover`. Null: the operation cannot be recovered. */
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
  /** Only inputs stored under one of these names. Absent: under any name. */
  readonly names?: readonly string[]
}

export interface LapsedOperation {
  readonly id: string
  readonly name: string
  readonly input: string
}
