/**
 * What relays parked, as an operator sees and settles it. The parked events of one aggregate are one **line**: its head
 * failed for the last time and has a reason, the others stand behind it and have none. Whoever is parked without a reason
 * behind nobody who has one is an **orphan**: its head was released, and it may go.
 */
export interface Parked {
  /** In the order they were published. */
  list(params: ListParkedParams): Promise<readonly ParkedEvent[]>
  /** In the order of shard and aggregate. */
  lines(params: ParkedLinesParams): Promise<readonly ParkedLine[]>
  /**
   * A part of some lines of one shard goes back to its relay, or is given up. Waits for a settlement of the relay's that
   * is under way, and is seen by the next one. A late acknowledgement may park more behind a line that is gone: orphans,
   * which the relay itself puts in line.
   */
  settle(params: SettleParkedParams): Promise<SettledParked>
}

export interface ListParkedParams {
  readonly destination: string
  readonly aggregateId: string | null
  readonly id: string | null
  /** Only those after this `seq`. */
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
  /** null: it stands behind another one of its aggregate. */
  readonly reason: string | null
  /** Milliseconds since 1970, by the database's clock. */
  readonly publishedAt: number
  /** Since then it is held: since its first failure, or since it stood behind another one. */
  readonly heldAt: number
}

export interface ParkedLine {
  readonly shard: number
  readonly aggregateId: string
  /** The `seq` of its head; null: there are only orphans. */
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
  /** Events of theirs that are given up, by `seq`. */
  readonly skip: readonly number[]
  /** Orphans that are put in line, at most. */
  readonly limit: number
}

export interface SettledParked {
  readonly released: number
  readonly skipped: number
  /** Orphans are left. */
  readonly more: boolean
}
