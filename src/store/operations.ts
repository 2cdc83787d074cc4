/** A leased operation as an operator sees it. Atomic operations are never visible before they end. */
export type OperationState =
  /** An attempt holds the lease. */
  | 'running'
  /** The lease has lapsed. A retry or `recover` may take over. */
  | 'abandoned'
  /** The outcome of its last call is unknown. An operator must settle it before another attempt. */
  | 'unknown'
  | 'completed'

export interface OperationFilter {
  /** null: of every namespace. Operations that older versions began have none, and belong to everybody. */
  readonly namespace: string | null
  readonly state: Exclude<OperationState, 'completed'> | null
  readonly route: string | null
  readonly label: string | null
  /** Hashed, as the record has it. */
  readonly scope: string | null
  /** Milliseconds since the first attempt began. */
  readonly olderThanMs: number
  readonly limit: number
}

export interface StoredOperation {
  readonly id: string
  readonly state: OperationState
  /** These three are null if an older version began the operation. */
  readonly namespace: string | null
  readonly route: string | null
  readonly label: string | null
  readonly attempt: number
  readonly life: string
  /** Since the first attempt began. */
  readonly ageMs: number
  /** Negative: how long ago the lease lapsed. Null: completed. */
  readonly leaseLeftMs: number | null
  /** The name under which its input was sealed. Null: it was not sealed. */
  readonly recover: string | null
}
