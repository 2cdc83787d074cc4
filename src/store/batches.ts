import type { Claim, Claimed, CompleteParams, Row, UserStatement } from './session.ts'

/** Many requests, one transaction. */
export interface Batches {
  /** The most requests one batch may hold on this server (advisory locks are a shared budget). */
  limit(): Promise<number>
  /** True for an error that says: too many locks at once. Smaller batches may pass. */
  isCrowded?(error: unknown): boolean
  /**
   * Opens a transaction and claims what can be claimed: one trip, one statement, never waiting. `claims` are sorted by
   * id, one per identity, and share their retention and fingerprint version. A forgotten record (an expired one with
   * `rerun`) starts a new life. Winners by id.
   */
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
