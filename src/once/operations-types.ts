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
  /** Returns one operation in any state, with its steps. Returns null if the operation does not exist. */
  show(operation: OperationIdentity): Promise<ShownOperation | null>
  /**
   * Streams the recorded steps of one name, ordered by the operation's id: the calls that we made to one provider. Reads
   * pages, so that memory is bounded. Steps that are recorded during the reading may be left out.
   */
  steps(options: RecordedStepsOptions): AsyncIterable<RecordedStep>
  /**
   * Records what an operator found out about an unknown operation. `{ failed }` and `{ undo }` end an abandoned
   * operation, too. Returns false for an operation in any other state.
   */
  settle(operation: OperationIdentity, verdict: Verdict, audit?: OperationAudit): Promise<boolean>
  /**
   * Ends the lease, so that the next retry, or `recover`, takes over at once. An attempt that still runs can no longer
   * commit. Returns false for a completed operation, and while the outcome of a call is unknown: use `settle` then.
   */
  release(operation: OperationIdentity, audit?: OperationAudit): Promise<boolean>
  /**
   * Takes over abandoned operations and runs them to the end: operations of routes with `recover`, and operations of
   * `run` whose `recover` name has a handler here.
   */
  recover(handlers?: RecoverHandlers<Tx, E>, options?: { limit?: number }): Promise<Recovered>
}

export interface OperationListOptions {
  state?: 'running' | 'abandoned' | 'unknown'
  /** The `name` of a route, its pattern such as 'POST /charges', or the name of a handler of `run`. */
  route?: string
  /** The label of the operation. */
  label?: string
  /** The scope in plain text, as your program passes it. */
  scope?: string
  /** Only operations whose first attempt began at least this long ago. */
  olderThan?: Duration
  /** Default 100, at most 1,000 */
  limit?: number
}

export interface RecordedStepsOptions {
  /** The name of the step, as the handler gives it. */
  name: string
  /** Only steps of operations whose first attempt began at this time or later. */
  since: Date
  /** Only steps of operations whose first attempt began before this time. */
  until?: Date
  /** Only steps behind the operation with this id. To go on where an earlier reading stopped. */
  after?: string
  /** Only steps of this operation. */
  operation?: OperationIdentity
}

/** A step as it is recorded. It is plain data. */
export interface RecordedStep {
  /** The hashed identity of the operation, which handlers see as `op.id`. */
  readonly id: string
  readonly name: string
  /** 'started': a call without a key began, and its result was not recorded. */
  readonly state: 'started' | 'done'
  /** What the step returned, such as the provider's reference. */
  readonly result: unknown
  /** What its undo returned. Absent if the step was not undone. */
  readonly undone?: unknown
  readonly route: string | null
  readonly label: string | null
  /** When the operation's first attempt began, in ISO 8601. */
  readonly startedAt: string
}

/** If `why` is set, the change is recorded in the audit. */
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
  /** When the last lease ended. Null while an attempt holds the lease, and for a completed operation. */
  readonly abandonedAt: Date | null
  /** Whether the input is stored, so that `recover` can finish the operation. */
  readonly recoverable: boolean
}

export interface ShownOperation extends ListedOperation {
  /** A step in the state 'started' has an unknown outcome. */
  readonly steps: readonly {
    readonly name: string
    readonly state: 'started' | 'done'
    readonly result: unknown
    /** What its undo returned. Absent if the step was not undone. */
    readonly undone?: unknown
  }[]
  /** The status of the stored answer. Null while there is no answer. */
  readonly status: number | null
  /** Its answer, steps and input were erased. */
  readonly erased: boolean
  /** The status of the refusal whose undo is recorded, before and after the undo has ended. Null: nothing is undone. */
  readonly refusal: number | null
  /** The input that is stored for `recover`. Null if none is stored. */
  readonly input: unknown
}
