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

/** A place between the recorded steps, which are ordered by operation and life. */
export interface StepPlace {
  readonly id: string
  readonly life: string
}

export interface StepFilter {
  /** As for operations. */
  readonly namespace: string | null
  readonly name: string
  /** The name under which the undo of the step is recorded. */
  readonly undo: string
  /** Only steps of lives that began from this microsecond on, and before the other. */
  readonly since: string
  readonly until: string
  /** Only steps behind this place. */
  readonly after: StepPlace
  readonly limit: number
  /** The answer ends after about so many bytes of results, but has at least one step if there is one. */
  readonly bytes: number
}

export interface FoundStep extends StepPlace {
  readonly route: string | null
  readonly label: string | null
  readonly state: 'started' | 'done'
  /** JSON text. Null: the step was started and has not ended. */
  readonly result: string | null
  /** JSON text that its undo returned. Null: it was not undone. */
  readonly undone: string | null
}
