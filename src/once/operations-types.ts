import type { Duration } from '../duration.ts'
import type { Events } from '../outbox/event.ts'
import type { Recovered, RecoverHandlers, Verdict } from '../operation/types.ts'
import type { OperationState } from '../store/operations.ts'

/** An operation by its hashed identity (`op.id`), or by the scope and key that name it. */
export type OperationIdentity = string | { scope: string; key: string }

/** Leased operations that are not completed: find them, and finish, settle or release them. */
export interface Operations<Tx, E extends Events> {
  /** Lists operations that are not completed, oldest first. */
  list(options?: OperationListOptions): Promise<readonly ListedOperation[]>
  /** Returns one operation in any state, with its steps; null if there is none. */
  show(operation: OperationIdentity): Promise<ShownOperation | null>
  /**
   * Records what an operator found out about an unknown operation. `{ failed }` ends an abandoned operation, too.
   * Returns false for an operation in any other state.
   */
  settle(operation: OperationIdentity, verdict: Verdict, audit?: OperationAudit): Promise<boolean>
  /**
   * Ends the lease, so that the next retry, or `recover`, takes over at once. An attempt that still runs can no longer
   * commit. Returns false for a completed operation, and while the outcome of a call is unknown: settle that one.
   */
  release(operation: OperationIdentity, audit?: OperationAudit): Promise<boolean>
  /**
   * Takes over abandoned operations and runs them to the end: those of routes with `recover`, and those of `run` whose
   * names are given here.
   */
  recover(handlers?: RecoverHandlers<Tx, E>, options?: { limit?: number }): Promise<Recovered>
}

export interface OperationListOptions {
  state?: 'running' | 'abandoned' | 'unknown'
  /** The `name` of a route, its pattern such as 'POST /charges', or the name of a handler of `run`. */
  route?: string
  /** What `label` returned for the request. */
  label?: string
  /** The scope as your program says it. */
  scope?: string
  /** How long ago the first attempt began, at least. */
  olderThan?: Duration
  /** Default 100, at most 1,000 */
  limit?: number
}

/** With a reason, the change is written into the audit. */
export interface OperationAudit {
  why?: string
  /** Default: the namespace */
  by?: string
}

export interface ListedOperation {
  /** The hashed identity, which handlers see as `op.id`. */
  readonly id: string
  readonly state: OperationState
  /** `namespace`, `route` and `label` are null for operations of older versions. */
  readonly namespace: string | null
  readonly route: string | null
  readonly label: string | null
  readonly attempt: number
  readonly startedAt: Date
  /** Since when no attempt holds the lease; null while one does, and once the operation is completed. */
  readonly abandonedAt: Date | null
  /** Whether its input is stored, so that `recover` can finish it. */
  readonly recoverable: boolean
}

export interface ShownOperation extends ListedOperation {
  /** A step that has begun and is not done has an unknown outcome. */
  readonly steps: readonly { readonly name: string; readonly state: 'started' | 'done'; readonly result: unknown }[]
  /** The status of the stored answer; null while there is none. */
  readonly status: number | null
  /** What is stored for `recover`; null: nothing. */
  readonly input: unknown
}
