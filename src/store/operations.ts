/** A leased operation as an operator sees it. Atomic ones are never seen unfinished: they commit whole. */
export type OperationState =
  /** An attempt holds the lease. */
  | 'running'
  /** The lease has lapsed: a retry, or `recover`, may take over. */
  | 'abandoned'
  /** Nobody may take over before somebody has said what became of its last call. */
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
  /** These three are null where an older version began the operation. */
  readonly namespace: string | null
  readonly route: string | null
  readonly label: string | null
  readonly attempt: number
  readonly life: string
  /** Since the first attempt began. */
  readonly ageMs: number
  /** Negative: since when nobody holds it. Null: completed. */
  readonly leaseLeftMs: number | null
  /** Under which name its input was sealed; null: it was not. */
  readonly recover: string | null
}
