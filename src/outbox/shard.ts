import type { ShardLease, ShardState } from '../store/outbox.ts'

/** One leased shard. A shard that was lost and leased again is another object. */
export class Shard implements ShardLease {
  readonly shard: number
  readonly token: number
  /** Acknowledged up to here. */
  cursor: number
  /** Read up to here. */
  readTo: number
  /** Aggregates that wait; true: parked. */
  readonly blocked: Map<string, boolean>
  /** No batch of this lease was announced yet. */
  fresh = true
  /** What the last owner was sending when it died: sent in parts, and alone. */
  suspect: { readonly upTo: number; readonly attempt: number } | null

  constructor(state: ShardState) {
    this.shard = state.shard
    this.token = state.token
    this.cursor = state.cursor
    this.readTo = state.cursor
    this.blocked = new Map(state.blocked.map(({ aggregateId, parked }) => [aggregateId, parked]))
    this.suspect = state.tryingTo === null ? null : { upTo: state.tryingTo, attempt: Math.max(1, state.attempt) }
  }
}
