import type { DeadLetters, NewLetter } from './dead-letters.ts'
import type { EventRow, Session, SqlSession } from './session.ts'

/**
 * The consumer's part of the Store seam. An inbox row exists if and only if its effect committed: it is inserted first,
 * in the handler's own transaction. Ids are hashes over (consumer, source, message id). Nothing here waits for another
 * transaction; a message that runs elsewhere is 'busy'.
 */
export interface Inbox<Tx> {
  readonly letters: DeadLetters
  /** Registers the consumer, with the times for its sweeper. Does nothing if it is registered. */
  open(params: OpenInboxParams): Promise<void>
  /**
   * Opens a READ COMMITTED transaction and takes what can be taken: one statement, one trip. `items` have different ids.
   * Sights are in the order of the items. No items: a transaction without an inbox row.
   */
  take(params: TakeParams): Promise<Taken<Tx>>
  /** The states that `take` would return, without a transaction. 'taken': the message could be taken. */
  look(params: LookParams): Promise<readonly InboxState[]>
  /**
   * Inserts the row in somebody else's open transaction, last before its commit (leased consumers). False: another
   * transaction has it, or holds it, or has set it aside meanwhile (unless this is a redrive), and this one must not commit.
   */
  enter(session: Session<Tx>, params: EnterParams): Promise<boolean>
  /** Commits that these messages are about to be tried, so that a message that kills its process is counted. */
  trying(params: TryingParams): Promise<readonly Tries[]>
  /** Takes back one try of each message, which did not begin. Tries of other processes stay. */
  untry(params: TryingParams): Promise<void>
  /** The recorded tries of these messages. Counts nothing. */
  tries(params: TryingParams): Promise<readonly Tries[]>
  /** Commits failures, with their errors. Returns the recorded tries of each message. */
  failed(params: FailedParams): Promise<readonly Tries[]>
  /**
   * Sets messages aside, with their attempts, unless they were applied or set aside meanwhile, each under its lock:
   * nobody runs it then. Answers with the ids of those that run elsewhere, and of later ones of their aggregates: nothing
   * is done about them, and no position is passed. With none of these, what a log has read is passed in the same transaction.
   */
  park(params: ParkParams): Promise<readonly string[]>
  /** The positions of this consumer in a log. */
  positions(params: PositionsParams): Promise<readonly StoredPosition[]>
  /** Moves positions forward without an effect, past duplicates and messages without a handler. */
  pass(params: PositionsParams & { readonly positions: readonly StoredPosition[] }): Promise<void>
  /** Old inbox rows become marks, old marks and settled dead letters go. */
  sweep(params: { readonly limit: number; readonly signal?: AbortSignal | undefined }): Promise<SweptInbox>
}

export interface OpenInboxParams {
  readonly consumer: string
  /** After this time a row becomes a mark, which has only the id. */
  readonly inboxForMs: number
  /** A mark is forgotten this long after the message was applied. */
  readonly rememberForMs: number
  /** Dead letters that were settled (redriven, skipped, discarded) go after this. Parked ones stay. */
  readonly lettersForMs: number
}

export interface InboxItem {
  /** The hash of (consumer, source, message id), as a UUID. */
  readonly id: string
  /** The advisory lock of it: decimal text of a signed 64-bit number. */
  readonly lock: string
  readonly source: string
  /** The message's own id. */
  readonly message: string
  readonly aggregate: string | null
  /** The hash of its predecessor. Null: there is none, or it is taken in the same batch. */
  readonly previous: string | null
}

/**
 * 'taken': run it. 'duplicate': its effect is committed, or it is older than the inbox and marked. 'parked': a dead
 * letter has it. 'behind': a dead letter of its aggregate is parked, and it must join it. 'early': its predecessor is
 * not applied yet. 'busy': it runs elsewhere.
 */
export type InboxState = 'taken' | 'duplicate' | 'parked' | 'behind' | 'early' | 'busy'

/** By the number they travel under. */
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
  /** A dead letter of its own does not stand in the way. */
  readonly redrive?: boolean
}

export interface Taken<Tx> {
  readonly states: readonly InboxState[]
  readonly session: InboxSession<Tx>
}

export interface InboxSession<Tx> {
  /** For the handlers: nested operations join it. Its own `complete` is not used. */
  readonly session: SqlSession<Tx>
  /**
   * Events, positions, and what is known of the attempts; then COMMIT, in one trip where the client can. Raises inside
   * the database when a handler ended the transaction, or (ONCE_CONFLICT) when one of those taken was set aside before its
   * lock was had: `take` could not see that. 'rolledBack' when the server's tag says so.
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
  /** Attempts since the last finished one that were started and never ended. In `trying`: without this one. */
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
  /** Decimal text. A position never falls. */
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
