import type { Answer } from '../lifecycle/answer.ts'
import type { ClaimView, StoredRecord } from '../lifecycle/record.ts'
import type { Inbox } from './inbox.ts'
import type { LockBudget } from './lock-budget.ts'
import type { Namespaces } from './namespaces.ts'
import type { Outbox } from './outbox.ts'
import type { Redrives } from './redrives.ts'
import type { Retention } from './retention.ts'
import type {
  Claim,
  Claimed,
  Reading,
  Session,
  CompleteParams,
  LeaseHolder,
  FinishStepParams,
  UserStatement,
  Row,
} from './session.ts'

/**
 * The Store seam: what a database must do for the protocol, one method per statement or trip, so that the simulator can
 * stop the world between any two of them. Expected outcomes are returned, never thrown. A backend declares what it
 * cannot do, by a feature or by leaving out an optional part. It never does less silently.
 *
 * `Tx` is the user's own transaction object: a pg client, a Drizzle transaction, …
 */
export interface Store<Tx> {
  /** 'pg', 'drizzle', 'sqlite', …: for messages. */
  readonly name: string
  readonly features: StoreFeatures
  readonly schema: Schema
  readonly retention: Retention
  readonly leases: Leases<Tx>
  /** What may be locked at a time. Absent where locks are not a table that others need too. */
  readonly locks?: LockBudget
  /** Absent where requests cannot share a transaction. */
  readonly batches?: Batches
  /** Absent where events can be written but not relayed. */
  readonly outbox?: Outbox
  /** Absent where consumers cannot be run. */
  readonly inbox?: Inbox<Tx>
  /** Absent where dead letters cannot be run again. */
  readonly redrives?: Redrives<Tx>
  /** Absent where one namespace has the store to itself. */
  readonly namespaces?: Namespaces<Tx>
  /** What the development guard can watch. */
  readonly watch?: Watch
  /** Opens a READ COMMITTED transaction and claims in it: one trip. Nothing waits for another transaction. */
  begin(params: BeginParams): Promise<Begun<Tx>>
  /** Record and answer by a statement of its own, outside any transaction. */
  read(params: { readonly id: string }): Promise<Reading>
  /** Claim and final answer in one statement that commits alone: a refusal without the effect that was rolled back. */
  refuse(params: RefuseParams): Promise<ClaimView>
  /** The user's own open transaction. ONCE_TX_REQUIRED or ONCE_TX_ISOLATION where it cannot carry a claim. */
  join(tx: Tx): Promise<Session<Tx>>
  /** True for an error after which the whole transaction is worth running again (serialization failure, deadlock). */
  isTransient?(error: unknown): boolean
  close(): Promise<void>
}

export interface StoreFeatures {
  /** The effect shares the record's transaction. */
  readonly transactional: boolean
  /** Two claims can be open at once: in-flight duplicates are refused at once. Otherwise they wait for the one writer. */
  readonly concurrentClaims: boolean
  /** A paused holder is ended by the server at its deadline. */
  readonly serverDeadline: boolean
  /** begin+claim and completion+commit are one trip each. */
  readonly pipelined: boolean
  /** Commits survive power loss. */
  readonly durable: boolean
}

export interface BeginParams {
  readonly claim: Claim
  /** Past it the server ends the transaction, whatever the process does. */
  readonly deadlineMs: number
}

export interface Begun<Tx> {
  readonly view: ClaimView
  readonly session: Session<Tx>
  /** Present when `view.inserted`. */
  readonly claimed: Claimed | null
}

export interface RefuseParams {
  readonly claim: Claim
  readonly answer: Answer
}

export interface Leases<Tx> {
  /** Claims and commits at once, with a lease. */
  claim(params: LeaseParams): Promise<{ readonly view: ClaimView; readonly claimed: Claimed | null }>
  /** Takes a lapsed record over, or renews an expired one; null when somebody else was quicker. */
  takeOver(params: LeaseParams & { readonly seen: StoredRecord }): Promise<Claimed | null>
  /**
   * One statement for all leases of this process, on its own connection. Answers with the ids that are still ours. A
   * connection that does not answer within the time is given up, so that the next heartbeat has another.
   */
  heartbeat(params: HeartbeatParams): Promise<readonly string[]>
  /** Lets the lease lapse now, so that the next attempt need not wait. False when it is no longer ours. */
  release(params: LeaseHolder): Promise<boolean>
  /** A final answer without business rows, fenced. False when the lease is no longer ours. */
  refuse(params: LeaseHolder & RefuseParams): Promise<boolean>
  steps(params: { readonly id: string; readonly life: string }): Promise<readonly StoredStep[]>
  /** Commits the intent of an unkeyed outside call before it is made. False when the lease is no longer ours. */
  startStep(params: LeaseHolder & { readonly life: string; readonly name: string }): Promise<boolean>
  /** Records a step's result. False when the lease is no longer ours. */
  finishStep(params: FinishStepParams): Promise<boolean>
  /** Marks the outcome unknown. False when the lease is no longer ours. */
  suspend(params: LeaseHolder): Promise<boolean>
  /** An operator's word on an unknown operation; false when it is not unknown (any more). */
  settle(params: SettleParams): Promise<boolean>
  /** A transaction for `commit` and `step.tx`, with a server-side deadline. */
  open(params: { readonly deadlineMs: number }): Promise<Session<Tx>>
  /** In-progress operations whose lease has lapsed and whose input was sealed, oldest first. */
  lapsed(params: LapsedParams): Promise<readonly LapsedOperation[]>
  /** Operations whose outcome is unknown, for the operator. */
  unknown(params: { readonly limit: number }): Promise<readonly { readonly id: string; readonly sinceMs: number }[]>
}

export interface HeartbeatParams {
  readonly leases: readonly LeaseHolder[]
  readonly leaseMs: number
  readonly withinMs?: number
}

export interface LeaseParams {
  readonly claim: Claim
  readonly leaseMs: number
  /** Sealed input for `recover`; null when the operation is not recoverable. */
  readonly recover: { readonly namespace: string; readonly name: string; readonly input: string } | null
}

export interface StoredStep {
  readonly name: string
  readonly state: 'started' | 'done'
  /** JSON text; null while started. */
  readonly result: string | null
}

export interface SettleParams {
  readonly claim: Claim
  readonly verdict:
    | { readonly kind: 'done'; readonly step: string; readonly result: string }
    | { readonly kind: 'rerun'; readonly step: string }
    | { readonly kind: 'failed'; readonly answer: Answer }
}

export interface LapsedParams {
  readonly limit: number
  readonly namespace: string
  /** Sealed under one of these names. Absent: under any. */
  readonly names?: readonly string[]
}

export interface LapsedOperation {
  readonly id: string
  readonly name: string
  readonly input: string
}

/** Many requests, one transaction. */
export interface Batches {
  /** The most requests one batch may hold on this server (advisory locks are a shared budget). */
  limit(): Promise<number>
  /**
   * Opens a transaction and claims what can be claimed: one trip, one statement, never waiting. `claims` are sorted by
   * id, one per identity, and share their retention and fingerprint version. A forgotten record (an expired one with
   * `rerun`) starts a new life. Winners by id.
   */
  /** True for an error that says: too many locks at once. Smaller batches may pass. */
  isCrowded?(error: unknown): boolean
  open(params: BatchParams): Promise<{ readonly session: BatchSession; readonly won: ReadonlyMap<string, Claimed> }>
}

export interface BatchParams {
  readonly claims: readonly Claim[]
  readonly deadlineMs: number
  /** An expired record starts a new life here, not only a forgotten one. */
  readonly rerun: boolean
}

export interface BatchSession {
  /** The winners' own statements, in order, in one trip. The first failure ends it: everything is rolled back. */
  effects(statements: readonly UserStatement[]): Promise<EffectsOutcome>
  /** Answers and events of all winners, one statement each, and COMMIT. */
  complete(items: readonly Omit<CompleteParams, 'fenced'>[]): Promise<'committed' | 'rolledBack'>
  rollback(): Promise<void>
}

export type EffectsOutcome =
  | { readonly kind: 'done'; readonly rows: readonly (readonly Row[])[] }
  /** This statement's own error: without it the others may pass. */
  | { readonly kind: 'failed'; readonly index: number; readonly error: unknown }
  /**
   * The transaction was ended while this statement was under way (past the last one: none was): `late` at its deadline,
   * otherwise because the connection is gone. The statement may or may not be the reason.
   */
  | { readonly kind: 'ended'; readonly index: number; readonly late: boolean; readonly error: unknown }

export type {
  Claim,
  Claimed,
  CompleteParams,
  EventRow,
  FinishStepParams,
  LeaseHolder as Held,
  Reading,
  Row,
  Savepoint,
  Session,
  TakeTurn,
  UserStatement,
} from './session.ts'
export type { Miscounted, Retention, SweepParams, Swept } from './retention.ts'

export interface MigrateParams {
  /** The namespace that gets the rows of before there were numbers, whoever else uses the database. */
  readonly adopt?: string | undefined
}

export interface Schema {
  /**
   * Applies what is missing; safe when many processes do it at once. Where nothing is missing, reading suffices.
   * ONCE_SCHEMA_NEWER when the database is ahead; ONCE_NAMESPACE_UNDECIDED when several namespaces have rows of before
   * there were numbers: `adopt` names whose they are.
   */
  migrate(params?: MigrateParams): Promise<{ readonly from: number; readonly to: number }>
  /** Every migration as SQL, for people who apply it themselves. */
  sql(params?: MigrateParams): string
  /** The version the database has; 0 when it was never migrated. */
  version(): Promise<number>
}

/** Hooks of the development guard: who reached the database beside `tx`. */
export interface Watch {
  /** Calls back for every query that goes to the root handle instead of a transaction; returns how to stop. */
  bypass(
    callback: (call: { readonly words: string; readonly starved: boolean; readonly total: number }) => void,
  ): () => void
}
