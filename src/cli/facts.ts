import type { Status } from '../once/status.ts'
import type { StoredRedrive } from '../store/redrives.ts'
import type { Rewound } from '../store/rewound.ts'
import type { StoredStatus } from '../store/status.ts'
import type { Row } from '../store/store.ts'

/** The namespaces that share the database. If none is registered, there is one without a name. */
export interface NamespaceFacts {
  readonly no: number
  readonly name: string | null
  /** Events that wait because no relay has ever run. */
  readonly unsent: StoredStatus['unsent']
  /** Parked dead letters. */
  readonly letters: number
}

interface Owned {
  readonly namespace: string | null
}

/** The data of `once.status()`, for every namespace. `status` and `doctor` show it. */
export interface Facts extends Omit<Status, 'destinations' | 'consumers'> {
  readonly namespaces: readonly NamespaceFacts[]
  readonly destinations: readonly (Status['destinations'][number] & Owned)[]
  readonly consumers: readonly (Status['consumers'][number] & Owned)[]
  /** Consumers and destinations from before namespaces that no namespace has used since. */
  readonly unclaimed: readonly string[]
  readonly redrives: readonly (StoredRedrive & Owned)[]
  /**
   * Recent cases in which the database went back behind the position of a destination or consumer, the newest first.
   */
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
  /** The coming days without a partition for answers. */
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
  /** Whether there is a pooler between this process and the server. */
  readonly between: boolean
  /** Whether a prepared statement was missing, or already existed. */
  readonly preparedLost: boolean
  /** A standby, or a database without writes. */
  readonly readOnly: boolean
}

/** Facts that `once.status()` does not contain. */
export interface Looked extends Pick<Facts, 'unclaimed' | 'server'> {
  readonly rewinds: readonly (Omit<Facts['rewinds'][number], 'namespace'> & { readonly no: number })[]
}

/** The most rewinds that are shown, and their greatest age. The audit has all of them. */
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
