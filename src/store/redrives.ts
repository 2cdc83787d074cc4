import type { LetterFilter, LetterReason, LetterState, NewLetter, StoredLetter } from './dead-letters.ts'
import type { Session } from './session.ts'

/**
 * Redrives run dead letters again, under their own ids. A redrive is a fixed list of letters of one consumer. A process
 * that runs this consumer takes the redrive under a lease, one process at a time. All state is in the database, so the
 * caller that started the redrive may end.
 */
export interface Redrives<Tx> {
  /** Counts the letters that a redrive with this filter would run, in one row per consumer. */
  plan(params: { readonly filter: LetterFilter }): Promise<readonly StoredPlan[]>
  /**
   * Fixes the list of letters in one statement, with an entry in the audit. A consumer has one redrive at a time. A
   * refused redrive leaves nothing behind.
   */
  create(params: CreateRedriveParams): Promise<CreatedRedrive>
  /** Lists the letters in the order of the redrive, only those after `after`. */
  items(params: RedriveItemsParams): Promise<readonly RedriveItem[]>
  /** Stores changed copies of bodies, while the redrive is prepared. */
  copy(params: { readonly redrive: number; readonly copies: readonly RedriveCopy[] }): Promise<void>
  /**
   * Changes the state, with an entry in the audit. Null: it is in another state, or another process holds its lease.
   */
  change(params: ChangeRedriveParams): Promise<StoredRedrive | null>
  get(params: { readonly redrive: number }): Promise<StoredRedrive | null>
  /** The newest first. */
  list(params: { readonly limit: number; readonly namespace?: number | undefined }): Promise<readonly StoredRedrive[]>
  /** Leases the consumer's running redrive, if one is free. Also records that the consumer is alive. */
  claim(params: { readonly consumer: string; readonly leaseMs: number }): Promise<RedriveLease | null>
  /** Renews the lease, and counts the letters that are about to run. Null: another process holds the lease. */
  beat(params: BeatRedriveParams): Promise<RedriveBeat | null>
  /**
   * Settles letters and items in the effect's transaction, as the last statement before the commit. False: the
   * transaction must not commit, because the lease is lost, or a letter was settled elsewhere. Without transactions
   * (null), it runs after the effect. If it does not run, the letter's next attempt is a duplicate, and settles it.
   */
  settle(session: Session<Tx> | null, params: RedriveHeld & { readonly ords: readonly number[] }): Promise<boolean>
  /** Records the fate of letters without an effect. False: the lease is lost, and nothing was written. */
  decide(params: RedriveHeld & { readonly decisions: readonly RedriveDecision[] }): Promise<boolean>
  /**
   * Adds the letters that were parked behind those of this redrive since it was created, unless it has changed copies.
   * Returns how many. 0 also if the lease is lost.
   */
  extend(params: RedriveHeld): Promise<number>
  release(params: RedriveHeld): Promise<void>
  /** The newest first. */
  audit(params: AuditParams): Promise<readonly AuditEntry[]>
  write(entry: NewAuditEntry): Promise<void>
  /**
   * Imports letters, each under the lock of its message, like `park`. Letters whose message was applied or is already a
   * letter do not change. Nothing is written for messages that another process runs.
   */
  import(params: { readonly letters: readonly ImportedLetter[] }): Promise<ImportOutcome>
  /** Removes redrives that ended long ago, with their copies. Returns how many. */
  sweep(params: { readonly keepForMs: number }): Promise<number>
}

export interface StoredPlan {
  readonly consumer: string
  /** Whether the consumer was ever started, so that its `rememberFor` is known. */
  readonly known: boolean
  /** Milliseconds since a process last reported that it runs this consumer. Null: unknown. */
  readonly seenAgoMs: number | null
  readonly matching: number
  /** Later letters of the same aggregates, which run too. */
  readonly behind: number
  readonly applied: number
  /** Letters that are older than the inbox remembers, so it is unknown whether they were applied. */
  readonly older: number
  /** Letters that would overtake an earlier one that stays parked, or that was skipped. */
  readonly overtaking: number
  /** The aggregates of the overtaking letters. */
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
  /** Another redrive of this consumer has not ended. */
  | { readonly kind: 'active'; readonly redrive: number }
  | { readonly kind: 'refused'; readonly plan: StoredPlan | null }

export type RedriveState = 'preparing' | 'running' | 'paused' | 'done' | 'aborted'

/** Indexed by the number that the database stores. */
export const REDRIVE_STATES: readonly (RedriveState | undefined)[] = [
  undefined,
  'preparing',
  'running',
  'paused',
  'done',
  'aborted',
]

/**
 * 'applied': by this redrive. 'already': applied before. 'failed': failed again, and stays parked. 'blocked': waits
 * behind a letter that failed. 'gone': settled elsewhere, for example discarded.
 */
export type RedriveOutcome = 'pending' | 'applied' | 'already' | 'failed' | 'blocked' | 'gone'

/** Indexed by the number that the database stores. */
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
  /** Why the redrive is paused or ended. */
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
  /** Whether a process works on the redrive now. */
  readonly held: boolean
  /** Milliseconds since a process last reported that it runs this consumer. Null: none ever did. */
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
  /** The change applies only while this lease is held. */
  readonly token?: string | undefined
  /** The change applies only if no letter was told to run again since this round. */
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
  /** Letters that are about to run. */
  readonly starting: readonly number[]
  /** Letters whose attempt ended without a decision. */
  readonly ended: readonly number[]
}

export interface RedriveBeat {
  readonly state: RedriveState
  /** A higher number: failed and blocked letters run again. */
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
  /** The number of the entry's namespace. Default 0 */
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
  /** The ids of letters whose messages another process runs. */
  readonly busy: readonly string[]
}

export interface ImportedLetter extends Omit<NewLetter, 'state'> {
  readonly consumer: string
  readonly state: Extract<LetterState, 'parked' | 'skipped'>
  readonly parkedAt: number
  /** JSON text. */
  readonly timeline: string
}
