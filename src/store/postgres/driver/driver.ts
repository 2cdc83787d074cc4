import type { Row, TakeTurn, Watch } from '../../store.ts'

/**
 * What a PostgreSQL client must do for us: one small file per client implements it, structurally, without importing the
 * client. Our own statements use only text, int4, float8, bool and null in results and strings, numbers, booleans and
 * null in parameters (arrays travel as array literals, bytes as base64), so that every client decodes them alike.
 */
export interface PgDriver<Tx> {
  readonly name: string
  /** begin+statement and statement+COMMIT are one trip each. */
  readonly pipelined: boolean
  /** There is one connection in all (PGlite): operations queue for it, and nothing on it can end a paused holder. */
  readonly single?: boolean
  /** One statement that commits by itself. */
  query(statement: PgStatement): Promise<readonly Row[]>
  /**
   * The same, on a connection that open operations cannot use up: heartbeats. A connection that does not answer in time
   * is given up. Falls back to `query`.
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
  /** A connection of its own for one relay's work, so that it does not queue behind producers. Absent: `query` serves. */
  lane?(): { query(statement: PgStatement): Promise<readonly Row[]> }
  readonly watch?: Watch
  /** LISTEN, on a connection of its own. Answers how to stop. Absent where the client cannot. */
  listen?(params: ListenParams): Promise<() => Promise<void>>
  /** Ends the connections that the driver opened. Never ends the user's pool. */
  close(): Promise<void>
}

export interface BeginOptions {
  /** For each answer, in milliseconds. Default: MAINTENANCE_WITHIN_MS */
  readonly withinMs?: number
}

export interface ListenParams {
  /** Quoted. */
  readonly channel: string
  called(): void
  /** No call will come any more. */
  lost(error: unknown): void
}

export interface PgConnection<Tx> {
  readonly tx: Tx
  /** `revoke` makes every further use of the handle ONCE_TX_CLOSED before it reaches the connection. */
  revocable(takeTurn?: TakeTurn): { readonly tx: Tx; revoke(): void }
  /** Resolves when nothing sent through a handle is on its way, where the client does not keep that order itself. */
  quiet?(): Promise<void>
  query(statement: PgStatement): Promise<readonly Row[]>
  /**
   * Many statements in one trip, or one by one if the client cannot. Stops at the first failure. 'ours': an answer must
   * come in time. The user's own statements have the deadline of their operation.
   */
  pipeline(statements: readonly PgStatement[], whose?: 'ours' | 'theirs'): Promise<PipelineOutcome>
  /**
   * `last` (if any) and COMMIT, in one trip where the client can. 'rolledBack' when the tag is not COMMIT. An error of
   * `last` is thrown as it came, one of COMMIT itself as `CommitRefused` (the transaction is over either way); a lost
   * connection throws `CommitLost`.
   */
  commit(last?: PgStatement): Promise<'committed' | 'rolledBack'>
  /** The reason why the session ended, if `error` reports that. Undefined: the session lives. */
  endedBy(error: unknown): Promise<unknown>
  /** Ends the transaction. Never throws. A broken connection is discarded, and not given back to the pool. */
  rollback(): Promise<void>
  /** The same for a transaction that wrote nothing, for a caller that does not wait: the driver may take its time. */
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
