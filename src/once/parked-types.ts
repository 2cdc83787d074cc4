/** Events that a relay gave up, each with those of its aggregate that stand behind it. */
export interface Parked {
  /** In the order they were published. */
  list(options: ParkedListOptions): Promise<readonly ParkedEvent[]>
  /**
   * They are sent again, each aggregate's in order, as if they had never failed: by the relay that runs, without a
   * restart. An event takes the whole line of its aggregate with it, so that nothing is overtaken. Answers how many events
   * are on their way; those that are not parked (any more) are left alone.
   */
  release(options: ParkedOptions & { why?: string; by?: string }): Promise<number>
  /**
   * Gives events up for this destination: the named one, or the first of each line. What stood behind them is sent.
   * Answers how many were given up.
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
  /** Since then it is held: since its first failure, or since it stood behind another one. */
  readonly heldAt: Date
  /** Where `list` goes on. */
  readonly seq: number
}
