import type { OnceError } from '../errors.ts'

export interface Retention {
  /** Removes expired rows, at most `limit`. Never removes a live, unknown or unfinished record. */
  sweep(params: SweepParams): Promise<Swept>
}

export interface SweepParams {
  readonly limit: number
  /** How long new answers are kept. Their storage is prepared. */
  readonly replayForMs: number
  /** How long sent events are kept. Absent: for ever. */
  readonly resendForMs?: number | undefined
  readonly signal?: AbortSignal | undefined
}

export interface Swept {
  readonly records: number
  /** Sent events past their time. */
  readonly events: number
  /** Segments whose sent events do not match the stored ones. Must be empty. Such segments are not dropped. */
  readonly miscounted: readonly Miscounted[]
  /** In-progress operations past their time, now unknown. */
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

/** One shard of a segment of events, as one destination has counted it. */
export interface Miscounted {
  readonly destination: string
  readonly segment: number
  readonly shard: number
  readonly stored: number
  readonly acknowledged: number
}
