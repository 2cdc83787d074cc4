import type { Answer } from '../lifecycle/answer.ts'
import type { Cancellation } from './cancellation.ts'
import type { CancelParams } from './outbox.ts'
import type { ClaimView, StoredRecord } from '../lifecycle/record.ts'

export interface Claim {
  readonly id: string
  readonly scope: string
  /** The advisory lock of the identity, as decimal text of a signed 64-bit number. */
  readonly lock: string
  /** Advisory lock of identity and fingerprint together. */
  readonly fingerprintLock: string
  readonly fingerprint: string
  readonly fingerprintVersion: number
  readonly replayForMs: number
  readonly goneForMs: number
}

/** A won claim. The store may write the record now, or only in `complete`. Until then it holds the key. */
export interface Claimed {
  readonly token: string
  readonly life: string
  readonly attempt: number
  /** The UTC day on which the answer expires. */
  readonly answerDay: string
}

export interface Reading {
  readonly record: StoredRecord | null
  /** Null: there is no record, or a live record without its answer, which cannot be replayed. */
  readonly answer: Answer | null
}

/**
 * One open transaction of a store with transactions. `complete` and `rollback` end it. If the database runs a
 * transaction in a single call, `tx` collects writes, `complete` sends them with record and answer, and the other
 * statements run outside it.
 */
export interface Session<Tx> {
  /** The client's own transaction object. Handlers get it only through `revocable`. */
  readonly tx: Tx
  /**
   * Returns a handle that can be revoked: after `revoke`, every call through it fails with ONCE_TX_CLOSED. `takeTurn`
   * is called before each statement, and may make it wait.
   */
  revocable(takeTurn?: TakeTurn): { readonly tx: Tx; revoke(): void }
  /** Claims a key in this transaction: for a nested run, for `join`, and again after a sweep. */
  claim(claim: Claim): Promise<{ readonly view: ClaimView; readonly claimed: Claimed | null }>
  /** Reads the record with a new statement, which has a new snapshot. */
  reread(claim: Claim): Promise<StoredRecord | null>
  /** Gives an expired record with this token a new life in this transaction. Null: it changed meanwhile. */
  renew(claim: Claim, seen: StoredRecord): Promise<Claimed | null>
  /**
   * Returns the record and the answer as this transaction sees them. If the record is given, only the answer is read.
   */
  read(params: { readonly id: string; readonly seen?: StoredRecord }): Promise<Reading>
  /**
   * Writes record, answer and events, and commits, in one round trip if the client can. The database raises an error if
   * another attempt holds the claim. Returns 'rolledBack' if the server reports a rollback. Throws ONCE_COMMIT_UNKNOWN
   * if the reply was lost.
   */
  complete(params: CompleteParams): Promise<'committed' | 'rolledBack'>
  /** Ends the transaction without effect. Never throws, because a broken connection has already rolled back. */
  rollback(): Promise<void>
  /** The same as `rollback`, after a replay, without waiting. A store may send it together with the next statements. */
  leave?(): void
  /**
   * The reason of a handler's error, if the server or the network ended the transaction. Called before the rollback.
   * Undefined: the error does not look like that, or the transaction is still open.
   */
  blame?(error: unknown): Promise<unknown> | undefined
  /** The number of rows written through this transaction so far, outside our own tables. Null: unknown. */
  written?(): Promise<number | null>
}

/** A transaction that stays open from statement to statement: operations can be nested in it. */
export interface SqlSession<Tx> extends Session<Tx> {
  /** Runs a statement of the user that does not go through a handle. Its errors are thrown unchanged. */
  execute(statement: UserStatement): Promise<readonly Row[]>
  /** Writes record, answer and events without a commit: a nested run commits with its outer transaction. */
  completeInside(params: CompleteParams): Promise<void>
  /** Appends events without a key (join(tx).publish). */
  append(events: readonly EventRow[]): Promise<void>
  /** Cancels a delayed event with this transaction (join(tx).cancel). */
  cancel(params: CancelParams): Promise<Cancellation>
  /** Locks the record by its token, writes a finished step, and commits both with the step's own rows. */
  completeStep(params: FinishStepParams): Promise<'committed' | 'rolledBack'>
  savepoint(): Promise<Savepoint>
}

/** Undefined: the statement may be sent at once. Otherwise it is sent in its turn, and this is its result. */
export type TakeTurn = <T>(statement: () => PromiseLike<T>) => Promise<T> | undefined

export interface Savepoint {
  release(): Promise<void>
  rollback(): Promise<void>
}

export interface CompleteParams {
  readonly claim: Claim
  readonly claimed: Claimed
  readonly answer: Answer
  readonly events: readonly EventRow[]
  /** For leased operations: the record must exist, be in progress and have this attempt's token. */
  readonly fenced: boolean
}

export interface RefuseParams {
  readonly claim: Claim
  readonly answer: Answer
}

export interface EventRow {
  readonly id: string
  readonly shard: number
  readonly aggregateType: string
  readonly aggregateId: string
  readonly type: string
  /** JSON text. */
  readonly payload: string
  /** JSON text of CloudEvents attributes and headers. */
  readonly headers: string
}

export interface LeaseHolder {
  readonly id: string
  readonly token: string
}

export interface FinishStepParams extends LeaseHolder {
  readonly life: string
  readonly name: string
  /** JSON text. */
  readonly result: string
}

export interface UserStatement {
  readonly sql: string
  readonly values: readonly unknown[]
}

export type Row = Record<string, unknown>
