import type { RedriveState } from '../../store/redrives.ts'
import type { Accountable } from '../accountable.ts'
import type { DeadLetterFilter } from '../dead-letters.ts'
import type { Transform, TransformPreview } from './transform.ts'

/** Which dead letters: those of one kind, or by their ids. */
export interface RedriveFilter extends DeadLetterFilter {
  /** Letters by `DeadLetter.id`. */
  ids?: readonly string[]
}

export interface RedriveOptions extends Accountable {
  /**
   * How many letters run first. If one of them fails, the redrive pauses. If none fails, the redrive goes on, or waits
   * for `resume` with `after: 'pause'`. Default `{ letters: 10, after: 'go' }`; 0: none.
   */
  canary?: number | { letters: number; after?: 'go' | 'pause' }
  /** Letters per second. Default 50 */
  rate?: number
  /** Pauses when more than this share of the last 50 letters failed, from the 10th on. Default 0.2; 1: never. */
  pauseAt?: number
  /** Changes events before they run. The copies are written down before the first letter runs. */
  transform?: Transform
  /**
   * Also runs letters that are older than the inbox remembers. Such a letter would be applied again if it was applied
   * before.
   */
  force?: boolean
  /** Also runs letters that would overtake an earlier one of their aggregate. */
  reorder?: boolean
}

export interface RedrivePlan {
  /** Null: the letters have no consumer in common, or there are none. A redrive has one consumer. */
  readonly consumer: string | null
  readonly consumers: Readonly<Record<string, number>>
  /** Letters that the filter names. */
  readonly matching: number
  /** Successors that were parked behind them: they come along, in order. */
  readonly behind: number
  /** Already applied: they are settled without running. */
  readonly applied: number
  /** Older than the inbox remembers: refused without `force`. */
  readonly older: number
  /** Aggregates where a letter would overtake an earlier one: refused without `reorder`. */
  readonly reordered: number
  readonly transform: TransformPreview | null
  /** Why a run would be refused, one line each. Empty: it would not. */
  readonly refusals: readonly string[]
  /** What an operator should know: nobody runs the consumer, … */
  readonly warnings: readonly string[]
}

export interface RedriveStatus {
  readonly id: number
  readonly consumer: string
  readonly state: RedriveState
  /** Why it is paused, or ended. */
  readonly reason: string | null
  readonly by: string
  readonly why: string
  readonly letters: number
  readonly applied: number
  /** Applied before: settled without running. */
  readonly already: number
  readonly failed: number
  /** Behind one that failed. */
  readonly blocked: number
  /** Settled by somebody else meanwhile. */
  readonly gone: number
  readonly left: number
  readonly canary: number
  readonly rate: number
  readonly pauseAt: number
  readonly createdAt: Date
  readonly endedAt: Date | null
  /** A process is at work on it. */
  readonly working: boolean
  /** When a process last showed that it runs the consumer, to about ten seconds. */
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
  /** What a run would meet. Changes nothing. */
  plan(
    filter: RedriveFilter,
    options?: { transform?: Transform; samples?: number; reveal?: boolean; force?: boolean; reorder?: boolean },
  ): Promise<RedrivePlan>
  /** Freezes the letters and has them run. ONCE_REDRIVE_REFUSED where the plan says so. */
  run(filter: RedriveFilter, options: RedriveOptions): Promise<RedriveStatus>
  /** Pauses before the next batch. */
  pause(id: number, by: Accountable): Promise<RedriveStatus>
  /** Goes on. Letters that failed, and letters blocked behind them, are tried again unless `retry` is false. */
  resume(
    id: number,
    by: Accountable & { retry?: boolean; rate?: number; transform?: Transform },
  ): Promise<RedriveStatus>
  /** Ends the redrive for ever. Letters that did not run stay parked. */
  abort(id: number, by: Accountable): Promise<RedriveStatus>
  status(id: number): Promise<RedriveStatus | null>
  /** The newest first. */
  list(options?: { limit?: number }): Promise<readonly RedriveStatus[]>
  /** Every change until it stops: done, paused or aborted. */
  watch(id: number, options?: { everyMs?: number; signal?: AbortSignal }): AsyncIterable<RedriveStatus>
  /** The newest first. */
  audit(options?: { redrive?: number; limit?: number }): Promise<readonly AuditRecord[]>
  /** Settles letters without running them, with an entry in the audit. Answers with how many. */
  discard(filter: RedriveFilter, by: Accountable & { limit?: number }): Promise<number>
}
