import type { Row, TakeTurn, Watch } from '../../store.ts'

/**
 * What a PostgreSQL client must do for us. One small file per client implements it, without importing the client.
 * Results of our own statements are only text, int4, float8, bool and null. Parameters are strings, numbers, booleans
 * and null; arrays are array literals, and bytes are base64. So every client encodes and decodes them in the same way.
 * A client with plain parameters gets single bytes as they are: see `parameters`.
 */
export interface PgDriver<Tx> {
  readonly name: string
  /** BEGIN with a statement, and a statement with COMMIT, take one round trip each. */
  readonly pipelined: boolean
  /** How the client sends parameters: see `ParameterStyle`. Default: 'encoded' */
  readonly parameters?: ParameterStyle
  /** There is only one connection (PGlite). Operations queue for it, and the server cannot end a paused holder. */
  readonly single?: boolean
  /** One statement that commits by itself. */
  query(statement: PgStatement): Promise<readonly Row[]>
  /**
   * The same, on a connection that open operations cannot use up. It is for heartbeats. A connection that does not
   * answer in time is closed. Falls back to `query`.
   */
  aside(statement: PgStatement, withinMs?: number): Promise<readonly Row[]>
  /**
   * `begin isolation level read committed`, then `first`. A failure leaves no connection behind. A connection that leaves
   * one of our statements without an answer for too long is given up, where the client lets us.
   */
  begin(
    first: PgStatement,
    options?: BeginOptions,
  ): Promise<{ readonly connection: PgConnection<Tx>; readonly rows: readonly Row[] }>
  /** The user's own transaction object. Its `commit` and `rollback` are never called. */
  join(tx: Tx): PgConnection<Tx>
  /**
   * A separate connection for the work of one relay, so that it does not queue behind producers. If absent, `query` is
   * used.
   */
  separateConnection?(): { query(statement: PgStatement): Promise<readonly Row[]> }
  readonly watch?: Watch
  /** LISTEN on a separate connection. Returns a function that stops it. Absent if the client cannot listen. */
  listen?(params: ListenParams): Promise<() => Promise<void>>
  /** Ends the connections that the driver opened. Never ends the user's pool. */
  close(): Promise<void>
}

/**
 * How a client sends parameters. 'encoded': it may encode them by the types that it finds out or guesses, so ours are
 * text that the statement casts. 'plain': text without a type, and bytes as they are. The server then reads each
 * parameter as what the statement needs, which costs it less than a cast.
 */
export type ParameterStyle = 'encoded' | 'plain'

export interface BeginOptions {
  /** The time limit of each answer, in milliseconds. Default: MAINTENANCE_WITHIN_MS */
  readonly withinMs?: number
}

export interface ListenParams {
  /** Quoted. */
  readonly channel: string
  called(): void
  /** No notification will come any more. */
  lost(error: unknown): void
}

export interface PgConnection<Tx> {
  readonly tx: Tx
  /** After `revoke`, every use of the handle fails with ONCE_TX_CLOSED before it reaches the connection. */
  revocable(takeTurn?: TakeTurn): { readonly tx: Tx; revoke(): void }
  /** Resolves when no statement of a handle is under way. For clients that do not keep statements in order. */
  quiet?(): Promise<void>
  query(statement: PgStatement): Promise<readonly Row[]>
  /**
   * Many statements in one trip, or one by one if the client cannot. Stops at the first failure. 'ours': an answer must
   * come in time. The user's own statements have the deadline of their operation.
   */
  pipeline(statements: readonly PgStatement[], whose?: 'ours' | 'theirs'): Promise<PipelineOutcome>
  /**
   * Sends `last` (if any) and COMMIT, in one round trip if the client can. Returns 'rolledBack' if the tag is not
   * COMMIT. An error of `last` is thrown unchanged, and an error of COMMIT as `CommitRefused`. The transaction is over
   * in both cases. A lost connection throws `CommitLost`.
   */
  commit(last?: PgStatement): Promise<'committed' | 'rolledBack'>
  /** The reason why the session ended, if `error` reports that. Undefined: the session lives. */
  endedBy(error: unknown): Promise<unknown>
  /** Ends the transaction. Never throws. A broken connection is discarded, and not given back to the pool. */
  rollback(): Promise<void>
  /** The same for a transaction that wrote nothing. The caller does not wait, so the driver may delay the rollback. */
  leave?(): void
}

export interface PgStatement {
  /** The name of the prepared statement, if the client and the pooler allow it. Empty: not prepared. */
  readonly name: string
  readonly text: string
  readonly values: readonly unknown[]
}

export type PipelineOutcome =
  | { readonly kind: 'done'; readonly rows: readonly (readonly Row[])[] }
  /** `lost`: the connection is gone, and with it the transaction. Otherwise the error is this statement's own. */
  | { readonly kind: 'failed'; readonly index: number; readonly error: unknown; readonly lost: boolean }

/** The connection broke after COMMIT was sent, so it is not known whether it committed. */
export class CommitLost extends Error {
  override readonly name: string = 'CommitLost'
  constructor(cause: unknown) {
    super('the reply to COMMIT was lost', { cause })
  }
}

/** The server refused COMMIT, because a deferred check of the transaction's own statements failed. */
export class CommitRefused extends Error {
  override readonly name: string = 'CommitRefused'
  constructor(cause: unknown) {
    super('COMMIT was refused', { cause })
  }
}
