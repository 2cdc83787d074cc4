import type { OperationState } from '../store/operations.ts'

export interface EraseOptions {
  /** Whose data is erased: the scope in plain text, as your program passes it to `run` or to a route. */
  scope: string
  /** Only the operation with this key. Default: all operations of the scope, and the dead letters of this tenant */
  key?: string
  /** The aggregates whose sent events and dead letters are erased. The type is the first part of their events' types. */
  aggregates?: readonly { readonly type: string; readonly id: string }[]
  /** Counts what would be erased, and changes nothing. */
  dryRun?: boolean
  /** For the audit, which keeps hashes of scope and key only. Default 'not said' */
  why?: string
  /** For the audit. Default: the namespace */
  by?: string
  signal?: AbortSignal
}

/** What was erased, and what could not be erased now. Each list has at most 1,000 entries. */
export interface Erased {
  /** Operations whose answer, steps, stored input and label were removed. Operations erased before do not count. */
  readonly operations: number
  /** Sent events whose data was removed. */
  readonly events: number
  /** Dead letters whose content was removed. */
  readonly letters: number
  /** The dead letters among them that were parked or skipped. Their messages are never applied. */
  readonly discarded: number
  /** True if nothing was refused. Otherwise resolve what is listed, and erase again. */
  readonly finished: boolean
  /**
   * True if copies of the answers stay in a shared cache until they expire. No process reads them any more. That happens
   * if the cache did not confirm their removal, or if this process does not know the cache.
   */
  readonly copiesExpire: boolean
  readonly refused: {
    /** Operations that are running, abandoned or unknown. See `operations.settle`. */
    readonly operations: readonly { readonly id: string; readonly state: OperationState }[]
    /** Events that were not sent to every destination. */
    readonly events: readonly {
      readonly id: string
      readonly type: string
      readonly aggregate: string
      readonly state: 'unsent' | 'waiting' | 'delayed' | 'parked'
    }[]
    /** Letters of a redrive that has not ended. Null: another transaction holds the letter. */
    readonly letters: readonly { readonly id: string; readonly redrive: number | null }[]
    /** Transactions that were open at the start, and still are. They may commit an operation of the scope. */
    readonly transactions: number
  }
}
