/** Events that a relay gave up on, and the events of the same aggregate that wait behind them. */
export interface Parked {
  /** Lists parked events in the order in which they were published. */
  list(options: ParkedListOptions): Promise<readonly ParkedEvent[]>
  /**
   * The running relay sends the events again, in order per aggregate, as if they had never failed. The relay needs no
   * restart. With an event, all parked events of its aggregate are released, so that they keep their order. Events that
   * are not parked do not change. Returns how many events were released.
   */
  release(options: ParkedOptions & { why?: string; by?: string }): Promise<number>
  /**
   * Skips events for this destination: the event `id`, or the first parked event of each aggregate. The events behind
   * them are sent. Returns how many events were skipped.
   */
  skip(options: ParkedOptions & { why: string; by?: string }): Promise<number>
}

export interface ParkedOptions {
  /** The name of a sink. */
  destination: string
  /** The id of one event. */
  id?: string
  /** The id of one aggregate. */
  aggregate?: string
}

export interface ParkedListOptions {
  destination: string
  aggregate?: string
  /** Default 100, at most 10,000 */
  limit?: number
  /** The `seq` of the last event of the previous page. */
  after?: number
}

export interface ParkedEvent {
  readonly id: string
  readonly type: string
  /** The id of the event's aggregate. */
  readonly aggregate: string
  /** The last error. Null if the event only waits behind another event of its aggregate. */
  readonly reason: string | null
  readonly attempts: number
  readonly publishedAt: Date
  /** When the relay began to hold the event: at its first failure, or when it had to wait behind another event. */
  readonly heldAt: Date
  /** Pass it as `after` to list the next page. */
  readonly seq: number
}
