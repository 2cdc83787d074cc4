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

/** The claim is ours. The record may be written now or only by `complete`: until then the store holds the key. */
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
 * One open transaction, as every store with transactions has it. `complete` and `rollback` end it. Where a transaction is
 * a single call of the database, `tx` collects writes, `complete` sends them with record and answer, and the other
 * statements run beside it.
 */
export interface Session<Tx> {
  /** The user's own object, as the client made it: never handed out without `revocable`. */
  readonly tx: Tx
  /**
   * A handle that can be taken back: after `revoke` every call through it is ONCE_TX_CLOSED. Before each statement
   * `takeTurn` is asked whether the statement has to wait.
   */
  revocable(takeTurn?: TakeTurn): { readonly tx: Tx; revoke(): void }
  /** Claims in this transaction (nested run, join, claim again after a sweep). */
  claim(claim: Claim): Promise<{ readonly view: ClaimView; readonly claimed: Claimed | null }>
  /** A new statement, hence a new snapshot. */
  reread(claim: Claim): Promise<StoredRecord | null>
  /** Gives an expired record with this token a new life in this transaction. Null: it changed meanwhile. */
  renew(claim: Claim, seen: StoredRecord): Promise<Claimed | null>
  /** The record and answer as this transaction sees them. For a known record, only the answer is read. */
  read(params: { readonly id: string; readonly seen?: StoredRecord }): Promise<Reading>
  /**
   * The completing statement and COMMIT, in one trip where the client can. Raises inside the database when the claim is
   * no longer ours. 'rolledBack' when the server's tag says so; throws ONCE_COMMIT_UNKNOWN when the reply was lost.
   */
  complete(params: CompleteParams): Promise<'committed' | 'rolledBack'>
  /** Ends the transaction without effect. Never throws, because a broken connection has already rolled back. */
  rollback(): Promise<void>
  /** The same after a replay, without waiting. A store may send it together with the next statements. */
  leave?(): void
  /**
   * What an error of the handler means where its transaction was ended under it, by the server or by the network. Asked
   * before the rollback. undefined: it does not even sound so, or the transaction lives, and the error is another's.
   */
  blame?(error: unknown): Promise<unknown> | undefined
  /** Rows written through this transaction so far, outside of our own tables. Null: unknown. */
  written?(): Promise<number | null>
}

/** A transaction that stays open from statement to statement: operations can be nested in it. */
export interface SqlSession<Tx> extends Session<Tx> {
  /** A statement of the user's own that is not made through a handle. Its errors are thrown as they come. */
  execute(statement: UserStatement): Promise<readonly Row[]>
  /** The completing statement without COMMIT, because a nested run commits with its outer transaction. */
  completeInside(params: CompleteParams): Promise<void>
  /** Appends events without a key (join(tx).publish). */
  append(events: readonly EventRow[]): Promise<void>
  /** Cancels a delayed event with this transaction (join(tx).cancel). */
  cancel(params: CancelParams): Promise<Cancellation>
  /** Locks the record row by token, writes a finished step, and commits: database work recorded with its step. */
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
  /** Leased: the record must exist, be in progress and have our token. */
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
