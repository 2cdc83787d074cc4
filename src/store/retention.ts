import type { OnceError } from '../errors.ts'

export interface Retention {
  /** Removes expired rows, at most `limit`. Never removes a live, unknown or unfinished record. */
  sweep(params: SweepParams): Promise<Swept>
}

export interface SweepParams {
  readonly limit: number
  /** How long new answers are kept. The sweep prepares storage for them. */
  readonly replayForMs: number
  /** How long sent events are kept. Absent: they are kept for ever. */
  readonly resendForMs?: number | undefined
  readonly signal?: AbortSignal | undefined
}

export interface Swept {
  readonly records: number
  /** Removed events, which were sent and past their time. */
  readonly events: number
  /**
   * Segments whose acknowledged and stored event counts differ. Such segments are not dropped, and an operator must
   * look.
   */
  readonly miscounted: readonly Miscounted[]
  /** Operations in progress that were marked as unknown, because `replayFor` has passed. */
  readonly suspended: number
  readonly partitionsDropped: number
  /** Partitions that are in use and could not be dropped. The next sweep tries again. */
  readonly partitionsBusy: number
  /** False: the limit was reached, and there may be more. */
  readonly finished: boolean
  /** Another process is sweeping, so nothing was done here. */
  readonly skipped: boolean
  /** The parts that failed. All others were done. */
  readonly troubles: readonly OnceError[]
}

/** One shard of a segment, with the event counts of one destination. */
export interface Miscounted {
  readonly destination: string
  readonly segment: number
  readonly shard: number
  readonly stored: number
  readonly acknowledged: number
}
