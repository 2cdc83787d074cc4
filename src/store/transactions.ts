import type { ClaimView } from '../lifecycle/record.ts'
import type { Claim, Claimed, RefuseParams, Session, SqlSession } from './session.ts'

/** The additions of a store whose effects share the record's transaction (`features.transactional`). */
export interface Transactions<Tx> {
  /**
   * Opens a READ COMMITTED transaction and claims in it: one trip. Nothing waits for another transaction. A store that
   * cannot hold the key meanwhile raises ONCE_CONFLICT in `complete`, and the operation runs again.
   */
  begin(params: BeginParams): Promise<Begun<Tx>>
  /** A transaction without a claim, for `commit` and `step.tx` of a leased operation, with a server-side deadline. */
  open(params: { readonly deadlineMs: number }): Promise<Session<Tx>>
  /** Claim and final answer in one statement that commits alone: a refusal without the effect that was rolled back. */
  refuse(params: RefuseParams): Promise<ClaimView>
  /** True for an error after which the whole transaction is worth running again (serialization failure, deadlock). */
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
  /** Present when `view.inserted`. */
  readonly claimed: Claimed | null
}

export interface SqlBegun<Tx> extends Begun<Tx> {
  readonly session: SqlSession<Tx>
}
