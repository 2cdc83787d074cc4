import type { Accountable } from '../dead-letter/accountable.ts'
import type { Duration } from '../duration.ts'
import type { Once } from '../once/types.ts'

/**
 * One side of the comparison, ordered by key, ascending. `after` is the last key that was compared: entries up to it may
 * be left out.
 */
export type Side<T> = (from: { readonly after: string | null }) => AsyncIterable<T> | Iterable<T>

/** A difference between the two sides. */
export type Finding<O, T> =
  /** We recorded a call, and the provider does not have it. */
  | { readonly kind: 'missing'; readonly key: string; readonly ours: O }
  /** The provider has a call more often than we recorded it. `theirs` is the surplus one. */
  | { readonly kind: 'double'; readonly key: string; readonly ours: O; readonly theirs: T }
  /** The provider has a call that we did not record. */
  | { readonly kind: 'orphaned'; readonly key: string; readonly theirs: T }

export type FindingKind = Finding<unknown, unknown>['kind']

/** What a compensation gets in addition to its finding. `key` is the same in every attempt. */
export interface CompensationCall {
  readonly key: string
  readonly signal: AbortSignal
}

export type Compensations<O, T> = {
  readonly [K in FindingKind]?: (
    finding: Extract<Finding<O, T>, { readonly kind: K }>,
    call: CompensationCall,
  ) => Promise<unknown>
}

export interface ReconciliationOptions<O, T> {
  // oxlint-disable-next-line no-explicit-any -- the transactions and events of the instance are not used
  once: Once<any, any>
  /** The name of this comparison, such as 'charges 2026-11-17'. The same name resumes it, or returns its result. */
  name: string
  ours: Side<O>
  theirs: Side<T>
  /** The key of an entry of either side. */
  key: (entry: O | T) => string
  /** What to do about each kind of finding. A kind without a function is only counted. */
  compensate?: Compensations<O, T>
  /** The lease of one page and of one compensation. Default '30s' */
  lease?: Duration
  /** How long the position and the compensations are remembered. Default '90d' */
  rememberFor?: Duration
}

export interface ReconciliationRunOptions extends Accountable {
  /** Makes this many compensations first, and pauses if one fails or is refused. Default 10 */
  canary?: number
  /** What happens after the canary. Default 'go' */
  afterCanary?: 'go' | 'pause'
  /** Compensations per second. Default 50 */
  rate?: number
  /** Pauses when more than this share of the last 10 to 50 compensations failed or were refused. Default 0.2 */
  pauseAt?: number
  signal?: AbortSignal
  /** Called after each page. */
  onProgress?: (totals: ReconciliationTotals) => void
}

export interface ReconciliationTotals {
  /** Entries that were compared. */
  readonly ours: number
  readonly theirs: number
  readonly missing: number
  readonly double: number
  readonly orphaned: number
  /** Findings that were compensated, by this run or an earlier one. */
  readonly compensated: number
  /** Findings whose compensation was refused for good, with `final()`. */
  readonly refused: number
}

export interface ReconciliationResult extends ReconciliationTotals {
  readonly state: 'done' | 'paused'
  /** Why the run paused. Null if it is done. */
  readonly reason: string | null
}

export interface ReconciliationPlan<O, T> extends Omit<ReconciliationTotals, 'compensated' | 'refused'> {
  /** `stopped`: the signal ended the plan, so there may be more findings. */
  readonly state: 'done' | 'stopped'
  /** The first findings, at most 20 of each kind. */
  readonly examples: readonly Finding<O, T>[]
}

export interface Reconciliation<O, T> {
  readonly name: string
  /** Compares both sides and changes nothing: a dry run. */
  plan(options?: { signal?: AbortSignal }): Promise<ReconciliationPlan<O, T>>
  /** Streams every finding and changes nothing. */
  findings(): AsyncIterable<Finding<O, T>>
  /** Compares and compensates. After a pause or a crash, the next run resumes where the last one stopped. */
  run(options: ReconciliationRunOptions): Promise<ReconciliationResult>
  /** Closes the instance. */
  close(): Promise<void>
}
