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
  /** Null: operations of every namespace. Operations that older versions began have no namespace, and always match. */
  readonly namespace: string | null
  readonly state: Exclude<OperationState, 'completed'> | null
  readonly route: string | null
  readonly label: string | null
  /** The hash of the scope, as the record stores it. */
  readonly scope: string | null
  /** Only operations whose first attempt began at least this long ago. */
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
  /** Milliseconds since the first attempt began. */
  readonly ageMs: number
  /** Milliseconds until the lease lapses. Negative: it has lapsed. Null: the operation is completed. */
  readonly leaseLeftMs: number | null
  /** The name under which the input is stored for `recover`. Null: no input is stored. */
  readonly recover: string | null
}
