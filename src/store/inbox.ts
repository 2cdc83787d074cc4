import type { DeadLetters, NewLetter } from './dead-letters.ts'
import type { EventRow, Session, SqlSession } from './session.ts'

/**
 * The consumer's part of the Store seam. An inbox row exists if and only if its effect committed: it is inserted first,
 * in the handler's own transaction. Ids are hashes over (consumer, source, message id). Nothing here waits for another
 * transaction; a message that runs elsewhere is 'busy'.
 */
export interface Inbox<Tx> {
  readonly letters: DeadLetters
  /** Makes the consumer known, with what its sweeper needs. Harmless when it is. */
  open(params: OpenInboxParams): Promise<void>
  /**
   * Opens a READ COMMITTED transaction and takes what can be taken: one statement, one trip. `items` have different ids.
   * Sights are in the order of the items. No items: a transaction without an inbox row.
   */
  take(params: TakeParams): Promise<Taken<Tx>>
  /** What `take` would see, without a transaction: 'taken' means that nothing stands in the way. */
  look(params: LookParams): Promise<readonly InboxState[]>
  /**
   * Inserts the row in somebody else's open transaction, last before its commit (leased consumers). False: another
   * transaction has it, or holds it, or has set it aside meanwhile (unless this is a redrive), and this one must not commit.
   */
  enter(session: Session<Tx>, params: EnterParams): Promise<boolean>
  /** Commits that these are about to be tried, before anything runs: a message that kills its process is counted. */
  trying(params: TryingParams): Promise<readonly Tries[]>
  /** Takes one of these back for each: it did not begin after all. What others counted meanwhile stays. */
  untry(params: TryingParams): Promise<void>
  /** What is known of those that were tried before; nothing is counted. */
  tries(params: TryingParams): Promise<readonly Tries[]>
  /** Commits failures, with their errors. Answers with what is known of each by now. */
  failed(params: FailedParams): Promise<readonly Tries[]>
  /**
   * Sets messages aside, with their attempts, unless they were applied or set aside meanwhile, each under its lock:
   * nobody runs it then. Answers with the ids of those that run elsewhere: nothing is done about them, and no position is
   * passed. With none of these, what a log has read is passed in the same transaction.
   */
  park(params: ParkParams): Promise<readonly string[]>
  /** Where this consumer is in a log. */
  positions(params: PositionsParams): Promise<readonly StoredPosition[]>
  /** Moves positions forward without an effect: duplicates, and messages nobody handles. */
  pass(params: PositionsParams & { readonly positions: readonly StoredPosition[] }): Promise<void>
  /** Old inbox rows become marks, old marks and settled dead letters go. */
  sweep(params: { readonly limit: number; readonly signal?: AbortSignal | undefined }): Promise<SweptInbox>
}

export interface OpenInboxParams {
  readonly consumer: string
  /** After this a row becomes a mark: its id alone. */
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
  /** The hash of its predecessor; null: none, or it is taken in this very batch. */
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
  /** Redrive: a dead letter of the item, or of its aggregate, does not stand in the way. */
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
  /** Of these, attempts were committed before: they are forgotten now. */
  readonly tried: readonly string[]
  /** The source's name and positions; null: the source has none. */
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
  /** Attempts that were started and never ended, since the last one that ended; of `trying`, without this one. */
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
  /** Decimal text; a position only ever grows. */
  readonly next: string
  /** Not passed where the database has not come this far: it was put back to an earlier state. Absent: nobody asks. */
  readonly from?: string | undefined
  /**
   * Inbox ids that earlier transactions left: in the inbox, as marks or as dead letters. Not passed where the database
   * has forgotten one of them, because what was settled with it is forgotten too.
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
