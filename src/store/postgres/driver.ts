import type { Row, Watch } from '../store.ts'

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
  /** The same, on a connection that open operations cannot use up: heartbeats. Falls back to `query`. */
  aside(statement: PgStatement): Promise<readonly Row[]>
  /** `begin isolation level read committed`, then `first`. A failure leaves no connection behind. */
  begin(first: PgStatement): Promise<{ readonly connection: PgConnection<Tx>; readonly rows: readonly Row[] }>
  /** The user's own transaction object. Its `commit` and `rollback` are never called. */
  join(tx: Tx): PgConnection<Tx>
  /** A connection of its own for one relay's work, so that it does not queue behind producers. Absent: `query` serves. */
  lane?(): { query(statement: PgStatement): Promise<readonly Row[]> }
  readonly watch?: Watch
  /** LISTEN, on a connection of its own. Answers how to stop. Absent where the client cannot. */
  listen?(params: ListenParams): Promise<() => Promise<void>>
  /** Ends what the driver itself opened; never the user's pool. */
  close(): Promise<void>
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
  revocable(): { readonly tx: Tx; revoke(): void }
  query(statement: PgStatement): Promise<readonly Row[]>
  /** Many statements in one trip (or one by one where the client cannot); stops at the first failure. */
  pipeline(statements: readonly PgStatement[]): Promise<PipelineOutcome>
  /**
   * `last` (if any) and COMMIT, in one trip where the client can. 'rolledBack' when the tag is not COMMIT. An error of
   * the server is thrown as it came (the transaction is over); a lost connection throws `CommitLost`.
   */
  commit(last?: PgStatement): Promise<'committed' | 'rolledBack'>
  /** Ends the transaction; never throws; a broken connection is discarded, not given back to the pool. */
  rollback(): Promise<void>
  /** The same for a transaction that wrote nothing, for a caller that does not wait: the driver may take its time. */
  leave?(): void
}

export interface PgStatement {
  /** Prepared under this name where the client and the pooler allow it; '' = unnamed. */
  readonly name: string
  readonly text: string
  readonly values: readonly unknown[]
}

export type PipelineOutcome =
  | { readonly kind: 'done'; readonly rows: readonly (readonly Row[])[] }
  | { readonly kind: 'failed'; readonly index: number; readonly error: unknown }

/** The connection broke after COMMIT was sent: nobody here knows whether it committed. */
export class CommitLost extends Error {
  override readonly name: string = 'CommitLost'
  constructor(cause: unknown) {
    super('the reply to COMMIT was lost', { cause })
  }
}
