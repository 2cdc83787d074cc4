import type { Ack, ShardLease, ShardState } from '../store/outbox.ts'

/** One leased shard. A shard that was lost and leased again is another object. */
export class Shard implements ShardLease {
  readonly shard: number
  readonly token: number
  /** Acknowledged up to here. */
  cursor: number
  /** The segment of the cursor's event, and how many of its events the cursor has passed. */
  segment: number
  counted: number
  /** Read up to here, and on from this segment. */
  readTo: number
  readFrom: number
  /** Aggregates that wait; true: parked. */
  readonly blocked: Map<string, boolean>
  /** No batch of this lease was announced yet. */
  fresh = true
  /** What the last owner was sending when it died: sent in halves, apart from everything else. */
  suspect: { readonly upTo: number; readonly attempt: number } | null

  constructor(state: ShardState) {
    this.shard = state.shard
    this.token = state.token
    this.cursor = state.cursor
    this.segment = state.segment
    this.counted = state.counted
    this.readTo = state.cursor
    this.readFrom = state.segment
    this.blocked = new Map(state.blocked.map(({ aggregateId, parked }) => [aggregateId, parked]))
    this.suspect = state.tryingTo === null ? null : { upTo: state.tryingTo, attempt: Math.max(1, state.attempt) }
  }

  /** Everything from the cursor on is read again. */
  rewind(): void {
    this.readTo = this.cursor
    this.readFrom = this.segment
  }

  /** An acknowledgement was written. */
  advance({ cursor, segment, counted }: Ack): void {
    this.cursor = cursor
    this.segment = segment
    this.counted = counted
  }
}
