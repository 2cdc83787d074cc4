import type { ClaimView } from '../lifecycle/record.ts'
import type { AnswerCache, CacheParts } from './answer-cache.ts'
import type { Batches } from './batches.ts'
import type { Erasure } from './erasure.ts'
import type { Inbox, SomeInbox } from './inbox.ts'
import type { Leases } from './leases.ts'
import type { LockBudget } from './lock-budget.ts'
import type { Namespaces, SomeNamespaces } from './namespaces.ts'
import type { Outbox } from './outbox.ts'
import type { Redrives } from './redrives.ts'
import type { Retention } from './retention.ts'
import type { Reading, RefuseParams, SqlSession } from './session.ts'
import type { StatusParams, StoredStatus } from './status.ts'
import type { Streams } from './streams.ts'
import type { BeginParams, SqlBegun, Transactions } from './transactions.ts'

/**
 * The Store interface: what a database must do, with one method per statement or round trip. So the simulator can stop
 * the world between any two of them. Expected outcomes are returned, never thrown. `KeyStore` is required, and enough
 * for leased operations. Every other part is optional: a store leaves out what its backend cannot do, and an operation
 * that needs it is refused with ONCE_UNSUPPORTED (`lacking.ts`). A store never weakens a promise silently.
 *
 * `Tx` is the user's own transaction object: a pg client, a Drizzle transaction, …; undefined without transactions.
 */
export interface Store<Tx> extends KeyStore, Partial<Transactions<Tx>> {
  /** Joins the user's own open transaction. Throws ONCE_TX_REQUIRED or ONCE_TX_ISOLATION if it cannot hold a claim. */
  join?(tx: Tx): Promise<SqlSession<Tx>>
  /** Rejects with ONCE_UNSUPPORTED if this server cannot keep the store's promises. Absent: every server can. */
  check?(): Promise<void>
  /** Absent if there is nothing to migrate. */
  readonly schema?: Schema | undefined
  /** Absent if the database itself removes expired records. */
  readonly retention?: Retention | undefined
  /** How many locks may be held at a time. Absent if the database has no shared lock table. */
  readonly locks?: LockBudget | undefined
  /** Absent if requests cannot share a transaction. */
  readonly batches?: Batches | undefined
  /** Absent if events can be written but not relayed. */
  readonly outbox?: Outbox | undefined
  /** Absent if the store cannot run consumers. */
  readonly inbox?: SomeInbox<Tx> | undefined
  /** Absent if the store cannot run dead letters again. */
  readonly redrives?: Redrives<Tx> | undefined
  /** Absent if the store cannot erase the data of a scope. */
  readonly erasure?: Erasure | undefined
  /** Absent if the store cannot record streams. */
  readonly streams?: Streams | undefined
  /** Absent if the store serves only one namespace. */
  readonly namespaces?: SomeNamespaces<Tx> | undefined
  /** Absent if the store cannot count its data cheaply. */
  status?(params: StatusParams): Promise<StoredStatus>
  /** Makes the cache that processes share. Absent: answers that this process does not know are in the database only. */
  sharedCache?(parts: CacheParts): AnswerCache
  /** What the development guard can check. */
  readonly watch?: Watch | undefined
}

/** The parts of every store: records, leases, steps and answers. */
export interface KeyStore {
  /** 'pg', 'drizzle', 'sqlite', …: for messages. */
  readonly name: string
  readonly features: StoreFeatures
  readonly leases: Leases
  /** Reads record and answer by a separate statement, outside any transaction. */
  read(params: { readonly id: string }): Promise<Reading>
  close(): Promise<void>
}

/** A store with every part: a SQL database. */
export interface SqlStore<Tx> extends Store<Tx> {
  readonly leases: Required<Leases>
  readonly schema: Schema
  readonly retention: Retention
  readonly batches: Batches
  readonly outbox: Outbox
  readonly inbox: Inbox<Tx>
  readonly redrives: Redrives<Tx>
  readonly erasure: Erasure
  readonly streams: Streams
  readonly namespaces: Namespaces<Tx>
  begin(params: BeginParams): Promise<SqlBegun<Tx>>
  open(params: { readonly deadlineMs: number }): Promise<SqlSession<Tx>>
  refuse(params: RefuseParams): Promise<ClaimView>
  join(tx: Tx): Promise<SqlSession<Tx>>
}

export interface StoreFeatures {
  /** The effect shares the record's transaction. If false, every operation needs a lease. */
  readonly transactional: boolean
  /**
   * Two claims can be open at once, so in-flight duplicates are refused at once. Otherwise they wait for the one
   * writer.
   */
  readonly concurrentClaims: boolean
  /** The server ends the transaction of a paused holder at its deadline. */
  readonly serverDeadline: boolean
  /** False: a failover may lose an acknowledged write, and with it a claim. Default: true */
  readonly durable?: boolean
}

export type {
  Claim,
  Claimed,
  CompleteParams,
  EventRow,
  FinishStepParams,
  LeaseHolder as Held,
  Reading,
  RefuseParams,
  Row,
  Savepoint,
  Session,
  SqlSession,
  TakeTurn,
  UserStatement,
} from './session.ts'
export type { Batches, BatchParams, BatchSession, EffectsOutcome } from './batches.ts'
export type {
  HeartbeatParams,
  LapsedOperation,
  LapsedParams,
  LeaseParams,
  Leases,
  OperationNotes,
  SettleParams,
  StoredStep,
} from './leases.ts'
export type { FoundStep, OperationFilter, OperationState, StepFilter, StoredOperation } from './operations.ts'
export type { Miscounted, Retention, SweepParams, Swept } from './retention.ts'
export type { AppendParams, ReadChunksParams, StoredChunk, Streams } from './streams.ts'
export type { BeginParams, Begun, SqlBegun, Transactions } from './transactions.ts'

export interface MigrateParams {
  /** The namespace that gets the rows from before namespaces, even if other services use the database. */
  readonly adopt?: string | undefined
}

export interface Schema {
  /**
   * Applies missing migrations. Many processes may call it at once. If nothing is missing, it only reads. Throws
   * ONCE_SCHEMA_NEWER if the database is ahead. Throws ONCE_NAMESPACE_UNDECIDED if several namespaces have rows from
   * before namespaces, unless `adopt` names their owner.
   */
  migrate(params?: MigrateParams): Promise<{ readonly from: number; readonly to: number }>
  /** Every migration as SQL, for people who apply it themselves. */
  sql(params?: MigrateParams): string
  /** The version that this code needs. */
  readonly latest?: number
  /** The version of the database. 0: it was never migrated. */
  version(): Promise<number>
  /** False: the database is a standby, or read-only. Absent: the store cannot tell. */
  writable?(): Promise<boolean>
}

/** Hooks of the development guard, which detects queries outside `tx`. */
export interface Watch {
  /** Calls back for every query on the root handle instead of a transaction. Returns a function that stops it. */
  bypass(
    callback: (call: { readonly words: string; readonly starved: boolean; readonly total: number }) => void,
  ): () => void
}
