import type { DeadLetters, NewLetter } from './dead-letters.ts'
import type { EventRow, Session, SqlSession } from './session.ts'

/**
 * The consumer's part of the Store interface, as far as leased consumers need it. Ids are hashes of consumer, source and
 * message id. No method waits for another transaction: if another process runs a message, the message is 'busy'.
 */
export interface LeasedInbox {
  readonly letters: DeadLetters
  /** Registers the consumer, with the times for its sweeper. Does nothing if it is registered. */
  open(params: OpenInboxParams): Promise<void>
  /** The states that `take` would return, without a transaction. 'taken': the message could be taken. */
  look(params: LookParams): Promise<readonly InboxState[]>
  /** Commits that these messages are about to be tried, so that a message that kills its process is counted. */
  trying(params: TryingParams): Promise<readonly Tries[]>
  /** Takes back one try of each message, which did not begin. Tries of other processes stay. */
  untry(params: TryingParams): Promise<void>
  /** The recorded tries of these messages. Counts nothing. */
  tries(params: TryingParams): Promise<readonly Tries[]>
  /** Commits failures, with their errors. Returns the recorded tries of each message. */
  failed(params: FailedParams): Promise<readonly Tries[]>
  /** Forgets the tries of applied messages. Absent: the effect's transaction forgets them. */
  applied?(params: TryingParams): Promise<void>
  /**
   * Parks messages with their attempts, unless they were applied or parked meanwhile. Each message is locked, so that
   * no process runs it. Returns the ids of messages that other processes run, and of later messages of their aggregates.
   * If there are any, these messages and the positions do not change. Otherwise the positions move in the same
   * transaction.
   */
  park(params: ParkParams): Promise<readonly string[]>
  /** The positions of this consumer in a log. */
  positions(params: PositionsParams): Promise<readonly StoredPosition[]>
  /** Moves positions forward without an effect, past duplicates and messages without a handler. */
  pass(params: PositionsParams & { readonly positions: readonly StoredPosition[] }): Promise<void>
}

/**
 * The inbox of a store with transactions. An inbox row exists if and only if its effect committed: the row is inserted
 * first, in the handler's own transaction.
 */
export interface Inbox<Tx> extends LeasedInbox {
  /**
   * Opens a READ COMMITTED transaction and takes every message that is free: one statement in one round trip. `items`
   * have different ids. The states are in the order of the items. Without items, it opens a transaction without an
   * inbox row.
   */
  take(params: TakeParams): Promise<Taken<Tx>>
  /**
   * Inserts the row in an open transaction, as its last statement before the commit (leased consumers). False: this
   * transaction must not commit, because another transaction has inserted or locked the row, or has parked the message
   * (unless this is a redrive).
   */
  enter(session: Session<Tx>, params: EnterParams): Promise<boolean>
  /** Turns old inbox rows into marks, and removes old marks and settled dead letters. */
  sweep(params: { readonly limit: number; readonly signal?: AbortSignal | undefined }): Promise<SweptInbox>
}

/** The inbox of any store. Without transactions, it has no rows of its own: a message's record is its operation. */
export type SomeInbox<Tx> = LeasedInbox & Partial<Inbox<Tx>>

export interface OpenInboxParams {
  readonly consumer: string
  /** After this time a row becomes a mark, which has only the id. */
  readonly inboxForMs: number
  /** A mark is forgotten this long after the message was applied. */
  readonly rememberForMs: number
  /** Settled dead letters (redriven, skipped, discarded) are removed after this time. Parked letters stay. */
  readonly lettersForMs: number
}

export interface InboxItem {
  /** The hash of (consumer, source, message id), as a UUID. */
  readonly id: string
  /** The advisory lock of the id, as decimal text of a signed 64-bit number. */
  readonly lock: string
  readonly source: string
  /** The message's own id. */
  readonly message: string
  readonly aggregate: string | null
  /** The hash of its predecessor. Null: there is none, or it is taken in the same batch. */
  readonly previous: string | null
}

/**
 * 'taken': run the message. 'duplicate': its effect is committed, as a row or a mark shows. 'parked': it is a dead
 * letter. 'behind': a dead letter of its aggregate is parked, and this message must be parked behind it. 'early': its
 * predecessor is not applied yet. 'busy': another process runs it.
 */
export type InboxState = 'taken' | 'duplicate' | 'parked' | 'behind' | 'early' | 'busy'

/** Indexed by the number that the statements return. */
export const INBOX_STATES: readonly InboxState[] = ['taken', 'duplicate', 'parked', 'behind', 'early', 'busy']

export interface TakeParams {
  readonly consumer: string
  readonly items: readonly InboxItem[]
  readonly deadlineMs: number
  /** For redrives: a dead letter of the item or of its aggregate does not block it. */
  readonly redrive?: boolean
}

export type LookParams = Pick<TakeParams, 'consumer' | 'items' | 'redrive'>

export interface EnterParams {
  readonly consumer: string
  readonly item: InboxItem
  /** For redrives: the message's own dead letter does not block it. */
  readonly redrive?: boolean
}

export interface Taken<Tx> {
  readonly states: readonly InboxState[]
  readonly session: InboxSession<Tx>
}

export interface InboxSession<Tx> {
  /** The session for handlers, which nested operations join. Its own `complete` is not used. */
  readonly session: SqlSession<Tx>
  /**
   * Writes events, positions and attempts, and commits, in one round trip if the client can. The database raises an
   * error if a handler ended the transaction. It raises ONCE_CONFLICT if a taken message was parked before its lock was
   * held, which `take` could not see. Returns 'rolledBack' if the server reports a rollback.
   */
  complete(params: CompleteInboxParams): Promise<'committed' | 'rolledBack'>
  rollback(): Promise<void>
}

export interface CompleteInboxParams {
  readonly consumer: string
  readonly events: readonly EventRow[]
  /** Messages whose tries were committed before. The tries are removed now. */
  readonly tried: readonly string[]
  /** The source's name and positions. Null: the source has none. */
  readonly positions: { readonly source: string; readonly positions: readonly StoredPosition[] } | null
}

export interface TryingParams {
  readonly consumer: string
  readonly ids: readonly string[]
}

/** How often a message was tried. */
export interface Tries {
  readonly id: string
  /** Failures, and attempts that were started and never ended. */
  readonly attempts: number
  /**
   * Attempts that were started and never ended, since the last attempt that ended. In `trying`: without the new one.
   */
  readonly unfinished: number
  readonly timeline: readonly AttemptEntry[]
}

export interface AttemptEntry {
  /** Milliseconds since 1970, by the database's clock. */
  readonly at: number
  readonly error: string
  readonly fingerprint: string
}

export interface FailedParams {
  readonly consumer: string
  readonly failures: readonly Failure[]
}

export interface Failure {
  readonly id: string
  /** `trying` counted this attempt already. */
  readonly counted: boolean
  readonly error: string
  readonly fingerprint: string
}

export interface ParkParams {
  readonly consumer: string
  readonly letters: readonly NewLetter[]
  readonly positions: CompleteInboxParams['positions']
  readonly deadlineMs: number
}

export interface PositionsParams {
  readonly consumer: string
  readonly source: string
}

export interface StoredPosition {
  readonly partition: string
  /** Decimal text. A position never moves back. */
  readonly next: string
  /** If the database has not reached this position, it was restored, and the position is not moved. Absent: not checked. */
  readonly from?: string | undefined
  /**
   * Inbox ids that earlier transactions wrote, as rows, marks or dead letters. If the database lost one of them, the
   * position is not moved, because the database also lost what was settled with it.
   */
  readonly witnesses?: readonly string[]
}

export interface SweptInbox {
  /** Rows that became marks. */
  readonly marked: number
  /** Rows that were removed because their mark is old enough. */
  readonly rows: number
  readonly marks: number
  readonly letters: number
  readonly finished: boolean
}
