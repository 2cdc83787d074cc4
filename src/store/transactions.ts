import type { ClaimView } from '../lifecycle/record.ts'
import type { Claim, Claimed, RefuseParams, Session, SqlSession } from './session.ts'

/** The additions of a store whose effects share the record's transaction (`features.transactional`). */
export interface Transactions<Tx> {
  /**
   * Opens a READ COMMITTED transaction and claims the key, in one round trip that never waits for another transaction.
   * A store that cannot hold the key meanwhile raises ONCE_CONFLICT in `complete`, and the operation runs again.
   */
  begin(params: BeginParams): Promise<Begun<Tx>>
  /**
   * Opens a transaction without a claim, for `commit` and `step.tx` of a leased operation. The server enforces the
   * deadline.
   */
  open(params: { readonly deadlineMs: number }): Promise<Session<Tx>>
  /**
   * Claims the key and stores a final answer, in one statement that commits alone. Used for a refusal whose effect was
   * rolled back.
   */
  refuse(params: RefuseParams): Promise<ClaimView>
  /** Whether the whole transaction may succeed if it runs again, after a serialization failure or a deadlock. */
  isTransient?(error: unknown): boolean
}

export interface BeginParams {
  readonly claim: Claim
  /** At this time the server ends the transaction, whatever the process does. */
  readonly deadlineMs: number
}

export interface Begun<Tx> {
  readonly view: ClaimView
  readonly session: Session<Tx>
  /** Set if `view.inserted` is true. */
  readonly claimed: Claimed | null
}

export interface SqlBegun<Tx> extends Begun<Tx> {
  readonly session: SqlSession<Tx>
}
