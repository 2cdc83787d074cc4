import type { Ack, SeenEvent, ShardLease, ShardState } from '../store/outbox.ts'

/** One leased shard. A shard that was lost and leased again is another object. */
export class Shard implements ShardLease {
  readonly shard: number
  readonly token: number
  /** Acknowledged up to here. */
  cursor: number
  /** The segment of the cursor's event, and how many of its events the cursor has passed. */
  segment: number
  counted: number
  /** Events up to this number were read. The next read begins at this segment. */
  readTo: number
  readFrom: number
  /** The last event of each read that the cursor has not passed. */
  #ends: SeenEvent[] = []
  /** Aggregates that wait. True: the aggregate is parked. */
  readonly blocked: Map<string, boolean>
  /** No batch of this lease was announced yet. */
  fresh = true
  /** The shard will be released, so no event of it is handed over any more. */
  leaving = false
  /** The announcement that was written last. */
  announced: Pick<Ack, 'tryingTo' | 'attempt'> = { tryingTo: null, attempt: 0 }
  /** The events that the last owner was sending when it died. They are sent in halves, apart from all others. */
  suspect: { readonly upTo: number; readonly attempt: number } | null

  /** The timeline of the database that leased the shard. */
  readonly timeline: string

  constructor(state: ShardState, timeline: string) {
    this.timeline = timeline
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

  /** Replaces the aggregates that wait. */
  block(aggregates: Iterable<readonly [string, boolean]>): void {
    this.blocked.clear()
    for (const [aggregateId, parked] of aggregates) this.blocked.set(aggregateId, parked)
  }

  /** A read ended with this event. */
  readUpTo({ seq, segment, id }: SeenEvent): void {
    this.readTo = seq
    this.readFrom = Math.max(this.readFrom, segment)
    this.#ends.push({ seq, segment, id })
  }

  /** The last event that was read, unless the cursor has passed it. */
  get seen(): SeenEvent | undefined {
    return this.#ends.at(-1)
  }

  /** The position that the database must have reached. */
  get known(): number {
    return this.seen?.seq ?? this.cursor
  }

  /**
   * Events that must exist when the cursor passes this event. If the last event of a read exists, so do its other
   * events.
   */
  seenWith({ seq, segment, id }: SeenEvent): SeenEvent[] {
    return [...this.#ends.filter((end) => end.seq < seq), { seq, segment, id }]
  }

  /** Everything from the cursor on is read again. */
  rewind(): void {
    this.#ends = []
    this.readTo = this.cursor
    this.readFrom = this.segment
  }

  /** An acknowledgement was written. */
  advance({ cursor, segment, counted, tryingTo, attempt }: Ack): void {
    this.announced = { tryingTo, attempt }
    this.cursor = cursor
    this.segment = segment
    this.counted = counted
    this.#ends = this.#ends.filter(({ seq }) => seq > cursor)
  }
}
