import type { LetterFilter, LetterReason, LetterState, NewLetter, StoredLetter } from './dead-letters.ts'
import type { Session } from './session.ts'

/**
 * Redrives: dead letters that are to run again, under their own ids. A redrive is a frozen list of letters of one
 * consumer; processes that run this consumer take it under a lease and apply it, one process at a time. Everything about
 * it is in the database, so whoever asked for it may go away.
 */
export interface Redrives<Tx> {
  /** The letters that a redrive by this filter would run. One row per consumer. */
  plan(params: { readonly filter: LetterFilter }): Promise<readonly StoredPlan[]>
  /**
   * Freezes the letters in one statement, with an entry in the audit. A consumer has one redrive at a time; what is
   * refused leaves nothing behind.
   */
  create(params: CreateRedriveParams): Promise<CreatedRedrive>
  /** In the order of the redrive, only those after `after`. */
  items(params: RedriveItemsParams): Promise<readonly RedriveItem[]>
  /** Stores changed copies of bodies, while the redrive is prepared. */
  copy(params: { readonly redrive: number; readonly copies: readonly RedriveCopy[] }): Promise<void>
  /** Changes the state with an entry in the audit. Null: it is in another state, or no longer ours. */
  change(params: ChangeRedriveParams): Promise<StoredRedrive | null>
  get(params: { readonly redrive: number }): Promise<StoredRedrive | null>
  /** The newest first. */
  list(params: { readonly limit: number; readonly namespace?: number | undefined }): Promise<readonly StoredRedrive[]>
  /** Leases the consumer's running redrive, if one is free. Also records that the consumer is alive. */
  claim(params: { readonly consumer: string; readonly leaseMs: number }): Promise<RedriveLease | null>
  /** Renews the lease, and counts the letters that are about to run. Null: the lease is no longer ours. */
  beat(params: BeatRedriveParams): Promise<RedriveBeat | null>
  /**
   * In the effect's transaction, last before its commit: letters and items are settled. False when the lease is not ours
   * any more, or a letter was settled by somebody else: then nothing may commit.
   */
  settle(session: Session<Tx>, params: RedriveHeld & { readonly ords: readonly number[] }): Promise<boolean>
  /** Records the fate of letters without an effect. False: the lease is no longer ours, and nothing was written. */
  decide(params: RedriveHeld & { readonly decisions: readonly RedriveDecision[] }): Promise<boolean>
  /**
   * Adds the letters that were parked behind those of this redrive since it was made, unless it has changed copies.
   * Returns how many. 0 also if the lease is no longer ours.
   */
  extend(params: RedriveHeld): Promise<number>
  release(params: RedriveHeld): Promise<void>
  /** The newest first. */
  audit(params: AuditParams): Promise<readonly AuditEntry[]>
  write(entry: NewAuditEntry): Promise<void>
  /**
   * Letters from a file, each under its message's lock, as `park` has it. Those that are applied or known stay as they
   * are; of those that run elsewhere nothing is written.
   */
  import(params: { readonly letters: readonly ImportedLetter[] }): Promise<ImportOutcome>
  /** Redrives that ended long ago, with the copies they hold. */
  sweep(params: { readonly keepForMs: number }): Promise<number>
}

export interface StoredPlan {
  readonly consumer: string
  /** The consumer was started once, so it is known how long it remembers. */
  readonly known: boolean
  /** Milliseconds since a process last showed that it runs this consumer. Null: unknown. */
  readonly seenAgoMs: number | null
  readonly matching: number
  /** Later letters of the same aggregates, which run too. */
  readonly behind: number
  readonly applied: number
  /** Older than the inbox remembers: whether they were applied cannot be told. */
  readonly older: number
  /** Letters that would overtake an earlier one that stays parked, or that was skipped. */
  readonly overtaking: number
  /** Their aggregates. */
  readonly reordered: number
}

export interface CreateRedriveParams {
  readonly filter: LetterFilter & { readonly consumer: string }
  readonly by: string
  readonly why: string
  /** The request as JSON text, for the audit. */
  readonly asked: string
  readonly prepare: boolean
  readonly canary: number
  readonly canaryStops: boolean
  readonly rate: number
  readonly pauseAt: number
  readonly force: boolean
  readonly reorder: boolean
}

export type CreatedRedrive =
  | { readonly kind: 'created'; readonly redrive: number; readonly plan: StoredPlan }
  /** One of this consumer is prepared, running or paused. */
  | { readonly kind: 'active'; readonly redrive: number }
  | { readonly kind: 'refused'; readonly plan: StoredPlan | null }

export type RedriveState = 'preparing' | 'running' | 'paused' | 'done' | 'aborted'

/** By the number they are stored under. */
export const REDRIVE_STATES: readonly (RedriveState | undefined)[] = [
  undefined,
  'preparing',
  'running',
  'paused',
  'done',
  'aborted',
]

/**
 * 'applied' by this redrive; 'already' applied before; 'failed' again, and parked as before; 'blocked' behind one that
 * failed; 'gone': somebody else settled the letter.
 */
export type RedriveOutcome = 'pending' | 'applied' | 'already' | 'failed' | 'blocked' | 'gone'

/** By the number they are stored under. */
export const REDRIVE_OUTCOMES: readonly RedriveOutcome[] = [
  'pending',
  'applied',
  'already',
  'failed',
  'blocked',
  'gone',
]

export interface StoredRedrive {
  readonly redrive: number
  readonly consumer: string
  readonly state: RedriveState
  /** Why it is paused or ended. */
  readonly reason: string | null
  readonly by: string
  readonly why: string
  readonly canary: number
  readonly canaryStops: boolean
  readonly rate: number
  readonly pauseAt: number
  /** Milliseconds since 1970, by the database's clock. */
  readonly createdAt: number
  readonly endedAt: number | null
  /** A process is at work on it. */
  readonly held: boolean
  /** Milliseconds since a process last showed that it runs this consumer. Null: none ever did. */
  readonly seenAgoMs: number | null
  readonly counts: Readonly<Record<RedriveOutcome, number>>
}

export interface RedriveItemsParams {
  readonly redrive: number
  readonly outcomes: readonly RedriveOutcome[]
  readonly after: number
  readonly limit: number
}

export interface RedriveItem {
  readonly ord: number
  readonly outcome: RedriveOutcome
  /** Attempts that were started and never ended. */
  readonly starts: number
  /** The changed copy of the body. Null: the body is unchanged. */
  readonly copy: string | null
  readonly letter: StoredLetter
}

export interface RedriveCopy {
  readonly ord: number
  readonly body: string
}

export interface ChangeRedriveParams {
  readonly redrive: number
  readonly from: readonly RedriveState[]
  readonly to: RedriveState
  readonly reason: string | null
  readonly by: string
  readonly why: string
  /** For the audit: 'pause', 'resume', … */
  readonly action: string
  /** Only while this lease is held. */
  readonly token?: string | undefined
  /** Only as long as nothing was told to run again since. */
  readonly round?: number | undefined
  /** Failed and blocked letters run again. The canary begins again unless it is over. */
  readonly retry?: boolean | undefined
  /** The canary is over. */
  readonly passed?: boolean | undefined
  readonly rate?: number | undefined
  /** The number of the namespace, for the audit. Default 0 */
  readonly namespace?: number | undefined
}

export interface RedriveHeld {
  readonly redrive: number
  readonly token: string
}

export interface RedriveLease extends RedriveHeld {
  readonly consumer: string
  readonly rate: number
  readonly pauseAt: number
}

export interface BeatRedriveParams extends RedriveHeld {
  readonly leaseMs: number
  /** About to run. */
  readonly starting: readonly number[]
  /** Their attempt ended, without a decision. */
  readonly ended: readonly number[]
}

export interface RedriveBeat {
  readonly state: RedriveState
  /** A new round: failed and blocked letters run again. */
  readonly round: number
  readonly rate: number
  readonly canary: number
  readonly canaryStops: boolean
  /** The decided letters of the canary, and how many of them failed. */
  readonly canaryDecided: number
  readonly canaryFailed: number
}

export type RedriveDecision =
  | { readonly ord: number; readonly outcome: 'already' | 'gone' }
  | {
      readonly ord: number
      readonly outcome: 'failed' | 'blocked'
      readonly reason: LetterReason
      readonly error: string
      readonly fingerprint: string
      /** JSON text. */
      readonly causes: string
    }

export interface AuditEntry {
  readonly seq: number
  readonly at: number
  readonly by: string
  readonly action: string
  readonly redrive: number | null
  readonly why: string
  /** JSON text. */
  readonly detail: string
}

export interface NewAuditEntry extends Omit<AuditEntry, 'seq' | 'at'> {
  /** The number of the namespace it is about. Default 0 */
  readonly namespace?: number | undefined
}

export interface AuditParams {
  readonly redrive?: number | undefined
  readonly limit: number
  /** Default: any */
  readonly namespace?: number | undefined
}

export interface ImportOutcome {
  readonly imported: number
  readonly applied: number
  /** The ids of those that run elsewhere. */
  readonly busy: readonly string[]
}

export interface ImportedLetter extends Omit<NewLetter, 'state'> {
  readonly consumer: string
  readonly state: Extract<LetterState, 'parked' | 'skipped'>
  readonly parkedAt: number
  /** JSON text. */
  readonly timeline: string
}
