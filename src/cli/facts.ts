import type { LetterCounts } from '../store/dead-letters.ts'
import type { StoredRedrive } from '../store/redrives.ts'
import type { Rewound } from '../store/rewound.ts'
import type { Row } from '../store/store.ts'

/** Who shares the database; one without a name where nobody has registered. */
export interface NamespaceFacts {
  readonly no: number
  readonly name: string | null
  /** Events, where nothing was ever sent anywhere. */
  readonly unsent: { readonly events: number; readonly oldestMs: number | null }
  /** Parked ones. */
  readonly letters: number
}

/** What the database shows, for `status` and `doctor`. */
export interface Facts {
  readonly namespaces: readonly NamespaceFacts[]
  /** Consumers and destinations from before namespaces, which nobody has used since. */
  readonly unclaimed: readonly string[]
  readonly inProgress: number
  /** In progress, and their lease has lapsed. */
  readonly lapsed: number
  readonly unknown: number
  /** Events that were never sent to this destination; at most 10,000 are counted per shard. */
  readonly destinations: readonly {
    readonly namespace: string | null
    readonly name: string
    readonly waiting: number
    readonly oldestMs: number | null
    readonly relays: number
    readonly parked: number
  }[]
  /** Of all namespaces: events, where nothing was ever sent anywhere. */
  readonly unsent: NamespaceFacts['unsent']
  readonly consumers: readonly {
    readonly namespace: string | null
    readonly name: string
    readonly seenAgoMs: number
    readonly rememberMs: number
    /** Parked letters that are older than it remembers. */
    readonly older: number
  }[]
  readonly letters: LetterCounts
  readonly redrives: readonly (StoredRedrive & { readonly namespace: string | null })[]
  /** Lately: the database was put back behind what a destination or a consumer knew. The newest first. */
  readonly rewinds: readonly {
    readonly namespace: string | null
    readonly name: string
    /** Milliseconds since 1970, by the database's clock. */
    readonly at: number
    readonly partitions: readonly Rewound[]
  }[]
  /** Null: not PostgreSQL. */
  readonly server: ServerFacts | null
}

export interface ServerFacts {
  /** Days of the coming ones without a partition for answers. */
  readonly missingDays: readonly string[]
  /** Answers in the default partition. */
  readonly strays: number
  readonly lockBudget: number
  readonly locksHeld: number
  /** Transactions that have held an outbox shard for long. */
  readonly shardHolders: readonly {
    readonly pid: number
    readonly shards: number
    readonly ms: number
    readonly state: string
    readonly query: string
  }[]
  /** Positive: the database is ahead of this machine. */
  readonly skewMs: number
  /** Something stands between us and the server. */
  readonly between: boolean
  /** A prepared statement was not there any more, or was there already. */
  readonly preparedLost: boolean
}

/** By their stored names; letters and redrives are the store's to tell. */
export interface Looked extends Omit<
  Facts,
  'letters' | 'redrives' | 'namespaces' | 'destinations' | 'consumers' | 'unsent' | 'rewinds'
> {
  readonly rewinds: readonly (Omit<Facts['rewinds'][number], 'namespace'> & { readonly no: number })[]
  readonly namespaces: readonly Omit<NamespaceFacts, 'letters'>[]
  readonly destinations: readonly Omit<Facts['destinations'][number], 'namespace'>[]
  readonly consumers: readonly Omit<Facts['consumers'][number], 'namespace'>[]
}

export function namespacesOf(rows: readonly Row[]): Looked['namespaces'] {
  return rows.map((row) => ({
    no: Number(row['no']),
    name: row['name'] as string | null,
    unsent: { events: Number(row['events'] ?? 0), oldestMs: maybe(row['oldest_ms']) },
  }))
}

/** Rows by the names both databases give them. */
export function destinationsOf(rows: readonly Row[]): Looked['destinations'] {
  return rows.map((row) => ({
    name: String(row['destination']),
    waiting: Number(row['waiting']),
    oldestMs: maybe(row['oldest_ms']),
    relays: Number(row['relays']),
    parked: Number(row['parked']),
  }))
}

export function consumersOf(rows: readonly Row[]): Looked['consumers'] {
  return rows.map((row) => ({
    name: String(row['name']),
    seenAgoMs: Number(row['seen_ago']),
    rememberMs: Number(row['remember_ms']),
    older: Number(row['older']),
  }))
}

/** So many are told of, and no older ones; the audit has all of them. */
export const REWINDS_MAX = 20
export const REWINDS_MS: number = 7 * 86_400_000

export function rewindsOf(rows: readonly Row[]): Looked['rewinds'] {
  return rows.map((row) => {
    const { destination, consumer, partitions } = JSON.parse(String(row['detail'])) as {
      readonly destination?: string
      readonly consumer?: string
      readonly partitions: readonly Rewound[]
    }
    return { no: Number(row['namespace']), name: destination ?? consumer ?? '', at: Number(row['at']), partitions }
  })
}

export function maybe(value: unknown): number | null {
  return value === null || value === undefined ? null : Number(value)
}
