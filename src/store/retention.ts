import type { OnceError } from '../errors.ts'

export interface Retention {
  /** Removes what is past its time, at most `limit` rows; never a live, unknown or half-done record. */
  sweep(params: SweepParams): Promise<Swept>
}

export interface SweepParams {
  readonly limit: number
  /** Answers written from now on expire this far ahead: their storage is made ready. */
  readonly replayForMs: number
  /** Sent events are kept this long; absent: for ever. */
  readonly resendForMs?: number | undefined
  readonly signal?: AbortSignal | undefined
}

export interface Swept {
  readonly records: number
  /** Sent events past their time. */
  readonly events: number
  /** Must be empty: what was sent is not what is stored. Nothing of such a segment is dropped. */
  readonly miscounted: readonly Miscounted[]
  /** In-progress operations past their time, now unknown. */
  readonly suspended: number
  readonly partitionsDropped: number
  /** Partitions that could not be dropped because somebody uses them: tried again on the next sweep. */
  readonly partitionsBusy: number
  /** false: the limit was reached, there may be more. */
  readonly finished: boolean
  /** Another process is sweeping: nothing was done here. */
  readonly skipped: boolean
  /** What could not be done. Everything else was. */
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
