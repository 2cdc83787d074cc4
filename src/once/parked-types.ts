/** Events that a relay gave up, each with those of its aggregate that stand behind it. */
export interface Parked {
  /** In the order they were published. */
  list(options: ParkedListOptions): Promise<readonly ParkedEvent[]>
  /**
   * The running relay sends the events again, in order per aggregate, as if they had never failed. It needs no restart.
   * An event takes the whole line of its aggregate with it, so that nothing is overtaken. Events that are not parked
   * (any more) are left alone. Returns how many events are on their way.
   */
  release(options: ParkedOptions & { why?: string; by?: string }): Promise<number>
  /**
   * Gives events up for this destination: the named one, or the first of each line. The events behind them are sent.
   * Returns how many were given up.
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
  /** The `seq` of the last one of the page before. */
  after?: number
}

export interface ParkedEvent {
  readonly id: string
  readonly type: string
  /** The id of its aggregate. */
  readonly aggregate: string
  /** Why it failed for the last time; null: it stands behind another one of its aggregate. */
  readonly reason: string | null
  readonly attempts: number
  readonly publishedAt: Date
  /** When the relay began to hold it: at its first failure, or when it had to wait behind another event. */
  readonly heldAt: Date
  /** Where `list` goes on. */
  readonly seq: number
}
