/** What the database holds of one program, by plain SQL. */
export interface Seen {
  /** Ids of effect rows, and of events. */
  readonly rows: readonly string[]
  readonly events: readonly string[]
  readonly records: readonly SeenRecord[]
  /** Messages that were applied, or set aside. */
  readonly applied: readonly string[]
  readonly parked: readonly string[]
}

export interface SeenRecord {
  readonly id: string
  readonly state: 'running' | 'completed' | 'unknown'
  /** null: there is no answer. */
  readonly answer: { readonly status: number; readonly body: string | null } | null
}
