import type { Status } from '../once/status.ts'
import type { StoredRedrive } from '../store/redrives.ts'
import type { Rewound } from '../store/rewound.ts'
import type { StoredStatus } from '../store/status.ts'
import type { Row } from '../store/store.ts'

/** Who shares the database; one without a name where nobody has registered. */
export interface NamespaceFacts {
  readonly no: number
  readonly name: string | null
  /** Events, where nothing was ever sent anywhere. */
  readonly unsent: StoredStatus['unsent']
  /** Parked ones. */
  readonly letters: number
}

interface Owned {
  readonly namespace: string | null
}

/** What the database shows, for `status` and `doctor`: what `once.status()` tells, of every namespace. */
export interface Facts extends Omit<Status, 'destinations' | 'consumers'> {
  readonly namespaces: readonly NamespaceFacts[]
  readonly destinations: readonly (Status['destinations'][number] & Owned)[]
  readonly consumers: readonly (Status['consumers'][number] & Owned)[]
  /** Consumers and destinations from before namespaces, which nobody has used since. */
  readonly unclaimed: readonly string[]
  readonly redrives: readonly (StoredRedrive & Owned)[]
  /** Lately: the database was put back behind what a destination or a consumer knew. The newest first. */
  readonly rewinds: readonly (Owned & {
    readonly name: string
    /** Milliseconds since 1970, by the database's clock. */
    readonly at: number
    readonly partitions: readonly Rewound[]
  })[]
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
  /** A standby, or a database without writes. */
  readonly readOnly: boolean
}

/** What `once.status()` does not tell. */
export interface Looked extends Pick<Facts, 'unclaimed' | 'server'> {
  readonly rewinds: readonly (Omit<Facts['rewinds'][number], 'namespace'> & { readonly no: number })[]
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
