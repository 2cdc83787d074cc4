/** Counts stop at this number, which then means "this many or more". */
export const COUNTED_MAX = 10_000
/** The most failed messages that are read. */
export const TRIES_MAX = 1_000
export const NOTHING = { events: 0, oldest_ms: null } as const

/** The state of a namespace in the database. Every part uses an index and a limit, so large tables cost no more. */
export interface StoredStatus {
  readonly operations: {
    readonly running: number
    readonly abandoned: number
    readonly unknown: number
    /** How long ago the oldest abandoned operation lost its lease. Null if there is none. */
    readonly oldestAbandonedMs: number | null
  }
  /** Names are as the database stores them. */
  readonly destinations: readonly {
    readonly name: string
    /** The number of waiting events. The count stops at 200 for each shard. */
    readonly waiting: number
    readonly oldestMs: number | null
    readonly parked: number
    /** Events that failed and are tried again, and the error of one of them. */
    readonly retrying: number
    readonly error: string | null
    /** Running relays, in any process. */
    readonly relays: number
  }[]
  /** Events that wait because no relay has ever sent to a destination. */
  readonly unsent: { readonly events: number; readonly oldestMs: number | null }
  readonly consumers: readonly {
    readonly name: string
    readonly seenAgoMs: number
    readonly rememberMs: number
    /** Parked dead letters. */
    readonly letters: number
    readonly oldestLetterMs: number | null
    /** Messages that failed and are tried again (at most 1,000 are counted), and the error of one of them. */
    readonly retrying: number
    readonly error: string | null
  }[]
  /** The time since the last sweep of any process. Null if there was none, or if it is not known. */
  readonly sweptAgoMs: number | null
  /** Tables of all namespaces, with their partitions. `rows` is the database's estimate. Null if it has none. */
  readonly sizes: readonly { readonly table: string; readonly rows: number | null; readonly bytes: number }[]
}

export interface StatusParams {
  /** The namespace of the operations. Null: every namespace. */
  readonly namespace: string | null
  /** The namespace's number. Negative: it has none. */
  readonly no: number
}
