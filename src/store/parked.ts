/**
 * Parked events, as an operator sees and settles them. The parked events of one aggregate are one **line**. Its head
 * failed for the last time and has a reason. The others wait behind the head and have no reason. If the head was
 * released, events that were parked behind it are **orphans**, and may be sent.
 */
export interface Parked {
  /** Lists events in the order in which they were published. */
  list(params: ListParkedParams): Promise<readonly ParkedEvent[]>
  /** Lists lines in the order of shard and aggregate. */
  lines(params: ParkedLinesParams): Promise<readonly ParkedLine[]>
  /**
   * Releases a part of some lines of one shard to the relay, or skips it. Waits for a running settlement of the relay;
   * the next one sees the change. A late acknowledgement may park more events behind a released line. The relay puts
   * these orphans back in line.
   */
  settle(params: SettleParkedParams): Promise<SettledParked>
}

export interface ListParkedParams {
  readonly destination: string
  readonly aggregateId: string | null
  readonly id: string | null
  /** Only events after this `seq`. */
  readonly after: number
  readonly limit: number
}

export interface ParkedEvent {
  readonly shard: number
  readonly seq: number
  readonly id: string
  readonly aggregateId: string
  readonly type: string
  readonly attempts: number
  /** Null: the event waits behind another event of its aggregate. */
  readonly reason: string | null
  /** Milliseconds since 1970, by the database's clock. */
  readonly publishedAt: number
  /** When the event was held: at its first failure, or when it had to wait behind another event. */
  readonly heldAt: number
}

export interface ParkedLine {
  readonly shard: number
  readonly aggregateId: string
  /** The `seq` of the line's head. Null: the line has only orphans. */
  readonly head: number | null
}

export interface ParkedLinesParams {
  readonly destination: string
  readonly aggregateId: string | null
  readonly after: Pick<ParkedLine, 'shard' | 'aggregateId'> | null
  readonly limit: number
}

export interface SettleParkedParams {
  readonly destination: string
  readonly shard: number
  readonly aggregateIds: readonly string[]
  /** The heads of these lines are due again, as if they had never failed. */
  readonly release: boolean
  /** The events to skip, by `seq`. */
  readonly skip: readonly number[]
  /** The most orphans that are put back in line. */
  readonly limit: number
}

export interface SettledParked {
  readonly released: number
  readonly skipped: number
  /** Whether more orphans are left. */
  readonly more: boolean
}
