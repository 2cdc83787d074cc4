import type { RedriveState } from '../../store/redrives.ts'
import type { Accountable } from '../accountable.ts'
import type { DeadLetterFilter } from '../dead-letters.ts'
import type { Transform, TransformPreview } from './transform.ts'

/** Selects dead letters by their fields, or by their ids. */
export interface RedriveFilter extends DeadLetterFilter {
  /** Letters by `DeadLetter.id`. */
  ids?: readonly string[]
}

export interface RedriveOptions extends Accountable {
  /**
   * How many letters run first. If one of them fails, the redrive pauses. If none fails, the redrive continues, or waits
   * for `resume` with `after: 'pause'`. Default `{ letters: 10, after: 'go' }`; 0: none.
   */
  canary?: number | { letters: number; after?: 'go' | 'pause' }
  /** Letters per second. Default 50 */
  rate?: number
  /** Pauses when more than this share of the last 50 letters failed, from the 10th on. Default 0.2; 1: never. */
  pauseAt?: number
  /** Changes events before they run. The changed copies are stored before the first letter runs. */
  transform?: Transform
  /**
   * Also runs letters that are older than the inbox remembers. Such a letter would be applied again if it was applied
   * before.
   */
  force?: boolean
  /** Also runs letters that would overtake an earlier letter of their aggregate. */
  reorder?: boolean
}

export interface RedrivePlan {
  /** The consumer of all letters. Null if there are no letters, or if they have several consumers. */
  readonly consumer: string | null
  readonly consumers: Readonly<Record<string, number>>
  /** Letters that match the filter. */
  readonly matching: number
  /** Letters that wait behind the matching letters. They run too, in order. */
  readonly behind: number
  /** Letters whose message was applied already. They are settled without running. */
  readonly applied: number
  /** Letters that are older than the inbox remembers. They are refused without `force`. */
  readonly older: number
  /** Aggregates where a letter would overtake an earlier letter. They are refused without `reorder`. */
  readonly reordered: number
  readonly transform: TransformPreview | null
  /** Why a run would be refused, one line for each reason. Empty if the run would start. */
  readonly refusals: readonly string[]
  /** Warnings for the operator, for example that no process runs the consumer. */
  readonly warnings: readonly string[]
}

export interface RedriveStatus {
  readonly id: number
  readonly consumer: string
  readonly state: RedriveState
  /** Why the redrive paused or ended. */
  readonly reason: string | null
  readonly by: string
  readonly why: string
  readonly letters: number
  readonly applied: number
  /** Letters whose message was applied before. They were settled without running. */
  readonly already: number
  readonly failed: number
  /** Letters that wait behind a letter that failed. */
  readonly blocked: number
  /** Letters that something else settled in the meantime, for example discarded letters. */
  readonly gone: number
  readonly left: number
  readonly canary: number
  readonly rate: number
  readonly pauseAt: number
  readonly createdAt: Date
  readonly endedAt: Date | null
  /** Whether a process works on the redrive now. */
  readonly working: boolean
  /** Milliseconds since a process last reported that it runs the consumer. Exact to about ten seconds. */
  readonly consumerSeenAgoMs: number | null
}

export interface AuditRecord {
  readonly at: Date
  readonly by: string
  readonly action: string
  readonly redrive: number | null
  readonly why: string
  readonly detail: Readonly<Record<string, unknown>>
}

/** Runs dead letters again, under their own ids. The processes that run the consumer do the work. */
export interface Redrive {
  /** Shows what a run would do. Changes nothing. */
  plan(
    filter: RedriveFilter,
    options?: { transform?: Transform; samples?: number; reveal?: boolean; force?: boolean; reorder?: boolean },
  ): Promise<RedrivePlan>
  /** Fixes the list of letters and starts the redrive. Throws ONCE_REDRIVE_REFUSED if the plan has refusals. */
  run(filter: RedriveFilter, options: RedriveOptions): Promise<RedriveStatus>
  /** Pauses before the next batch. */
  pause(id: number, by: Accountable): Promise<RedriveStatus>
  /** Continues. Letters that failed, and letters blocked behind them, run again unless `retry` is false. */
  resume(
    id: number,
    by: Accountable & { retry?: boolean; rate?: number; transform?: Transform },
  ): Promise<RedriveStatus>
  /** Ends the redrive for good. Letters that did not run stay parked. */
  abort(id: number, by: Accountable): Promise<RedriveStatus>
  status(id: number): Promise<RedriveStatus | null>
  /** The newest first. */
  list(options?: { limit?: number }): Promise<readonly RedriveStatus[]>
  /** Yields every change of the status until the redrive is done, paused or aborted. */
  watch(id: number, options?: { everyMs?: number; signal?: AbortSignal }): AsyncIterable<RedriveStatus>
  /** The newest first. */
  audit(options?: { redrive?: number; limit?: number }): Promise<readonly AuditRecord[]>
  /** Settles letters without running them. The audit records it. Returns how many letters were settled. */
  discard(filter: RedriveFilter, by: Accountable & { limit?: number }): Promise<number>
}
