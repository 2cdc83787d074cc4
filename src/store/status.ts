/** Counts stop here: so many, or more. */
export const COUNTED_MAX = 10_000

/** What a namespace has in the database. Every part is found by an index and bounded, however large the tables are. */
export interface StoredStatus {
  readonly operations: {
    readonly running: number
    readonly abandoned: number
    readonly unknown: number
    /** Since when the oldest abandoned one has no holder; null: there is none. */
    readonly oldestAbandonedMs: number | null
  }
  /** By their stored names. */
  readonly destinations: readonly {
    readonly name: string
    /** At most 200 of each shard are counted. */
    readonly waiting: number
    readonly oldestMs: number | null
    readonly parked: number
    /** Relays that live, in any process. */
    readonly relays: number
  }[]
  /** Events, where nothing was ever sent anywhere. */
  readonly unsent: { readonly events: number; readonly oldestMs: number | null }
  readonly consumers: readonly {
    readonly name: string
    readonly seenAgoMs: number
    readonly rememberMs: number
    /** Parked dead letters. */
    readonly letters: number
    readonly oldestLetterMs: number | null
  }[]
  /** Since the last sweep, by whoever; null: never, or not known. */
  readonly sweptAgoMs: number | null
  /** Tables of all namespaces, with their partitions. Rows are the database's own estimate; null: it has none. */
  readonly sizes: readonly { readonly table: string; readonly rows: number | null; readonly bytes: number }[]
}

export interface StatusParams {
  readonly namespace: string
  /** Its number; negative: it has none. */
  readonly no: number
}
