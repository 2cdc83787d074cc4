import type { Claim, Claimed, CompleteParams, Row, UserStatement } from './session.ts'

/** Many requests that share one transaction. */
export interface Batches {
  /** The most requests of one batch on this server. All batches share the server's advisory locks. */
  limit(): Promise<number>
  /** Whether the error says that there were too many locks. Smaller batches may succeed. */
  isCrowded?(error: unknown): boolean
  /**
   * Opens a transaction and claims every key that is free: one statement in one round trip, which never waits. `claims`
   * are sorted by id, have different ids, and share their retention and fingerprint version. A forgotten record, or
   * with `rerun` an expired one, starts a new life. Returns the winners by id.
   */
  open(params: BatchParams): Promise<{ readonly session: BatchSession; readonly won: ReadonlyMap<string, Claimed> }>
}

export interface BatchParams {
  readonly claims: readonly Claim[]
  readonly deadlineMs: number
  /** Whether an expired record starts a new life, too, and not only a forgotten one. */
  readonly rerun: boolean
}

export interface BatchSession {
  /** Runs the winners' own statements in order, in one round trip. The first failure rolls everything back. */
  effects(statements: readonly UserStatement[]): Promise<EffectsOutcome>
  /** Writes the answers and events of all winners, with one statement each, and commits. */
  complete(items: readonly Omit<CompleteParams, 'fenced'>[]): Promise<'committed' | 'rolledBack'>
  rollback(): Promise<void>
}

export type EffectsOutcome =
  | { readonly kind: 'done'; readonly rows: readonly (readonly Row[])[] }
  /** This statement failed. Without it, the others may succeed. */
  | { readonly kind: 'failed'; readonly index: number; readonly error: unknown }
  /**
   * The transaction ended while this statement was running. If `index` is past the last statement, none was running.
   * `late`: it ended at its deadline, otherwise because the connection was lost. The statement may or may not be the
   * cause.
   */
  | { readonly kind: 'ended'; readonly index: number; readonly late: boolean; readonly error: unknown }
