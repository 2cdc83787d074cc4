/**
 * Messages that a consumer set aside, one per (consumer, source, message id). A parked one stays until an operator
 * settles it: redriven under the same id, or discarded.
 */
export interface DeadLetters {
  /** In the order they were set aside. */
  list(params: ListLettersParams): Promise<readonly StoredLetter[]>
  get(params: { readonly id: string }): Promise<StoredLetter | null>
  count(params: { readonly filter: LetterFilter }): Promise<LetterCounts>
  /** Parked (or skipped) letters that are settled without running. Answers with how many there were. */
  discard(params: { readonly filter: LetterFilter; readonly limit: number }): Promise<number>
}

export type LetterState = 'parked' | 'skipped' | 'redriven' | 'discarded'

/** By the number they are stored under. */
export const LETTER_STATES: readonly (LetterState | undefined)[] = [
  undefined,
  'parked',
  'skipped',
  'redriven',
  'discarded',
]

/**
 * 'failed': its last attempt failed. 'crashed': it crashed the process again and again. 'unreadable'. 'unknownType'.
 * 'behind': an earlier message of its aggregate is parked. 'orphaned': its predecessor never came. 'refused': the
 * handler refused it for good.
 */
export type LetterReason = 'failed' | 'crashed' | 'unreadable' | 'unknownType' | 'behind' | 'orphaned' | 'refused'

/** What a consumer writes down. */
export interface Letter {
  /** The hash of (consumer, source, message id), as a UUID. */
  readonly id: string
  readonly source: string
  readonly message: string
  readonly type: string
  readonly aggregate: string | null
  /** The hash of its predecessor. */
  readonly previous: string | null
  readonly tenant: string | null
  readonly state: 'parked' | 'skipped'
  readonly reason: LetterReason
  /** The last error, in one line; null where none was thrown. */
  readonly error: string | null
  /** The same for errors of the same kind from the same place. */
  readonly fingerprint: string
  /** JSON text: errors and their causes, with stacks. */
  readonly causes: string
  /** The message as it came. */
  readonly body: string
  /** The body as a person may see it; null: the body itself. */
  readonly shown: string | null
  /** JSON text. */
  readonly headers: string
  readonly traceparent: string | null
  /** Attempts that no row counts, such as the one before an unreadable message. */
  readonly attempts: number
}

export interface NewLetter extends Letter {
  /** The message's advisory lock: decimal text of a signed 64-bit number. */
  readonly lock: string
}

export interface StoredLetter extends Omit<Letter, 'state'> {
  readonly consumer: string
  readonly state: LetterState
  /** JSON text: [{ at, error, fingerprint }], oldest first. */
  readonly timeline: string
  /** Grows in the order of setting aside. */
  readonly seq: number
  /** Milliseconds since 1970, by the database's clock. */
  readonly parkedAt: number
  readonly settledAt: number | null
  /** Other letters of its aggregate that are parked behind it. */
  readonly blocks: number
}

export interface LetterFilter {
  /** The number of the namespace that their consumers belong to. Default: any */
  readonly namespace?: number | undefined
  readonly consumer?: string | undefined
  readonly source?: string | undefined
  readonly type?: string | undefined
  readonly aggregate?: string | undefined
  readonly tenant?: string | undefined
  readonly fingerprint?: string | undefined
  readonly reason?: LetterReason | undefined
  readonly states?: readonly LetterState[] | undefined
  readonly ids?: readonly string[] | undefined
  /** Milliseconds since 1970: parked from here on, and before there. */
  readonly from?: number | undefined
  readonly to?: number | undefined
}

export interface ListLettersParams {
  readonly filter: LetterFilter
  readonly limit: number
  /** Only those after this `seq`. */
  readonly after?: number | undefined
  /** false: nobody asks how many are parked behind them, and `blocks` is 0. */
  readonly blocks?: boolean | undefined
}

export interface LetterCounts {
  readonly total: number
  readonly oldestAt: number | null
  /** The most frequent first, at most 100. */
  readonly groups: readonly {
    readonly consumer: string
    readonly fingerprint: string
    readonly reason: LetterReason
    readonly error: string | null
    readonly count: number
    readonly firstAt: number
    readonly lastAt: number
  }[]
}

/**
 * The ids of letters whose messages run elsewhere, and of later letters of their aggregates. A redrive runs letters in
 * the order in which they were parked.
 */
export function withLater(letters: readonly Letter[], running: readonly string[]): readonly string[] {
  const ids = new Set(running)
  const aggregates = new Set<string>()
  for (const { id, source, aggregate } of letters) {
    if (aggregate === null) continue
    const place = `${source.length}:${source}${aggregate}`
    if (ids.has(id)) aggregates.add(place)
    else if (aggregates.has(place)) ids.add(id)
  }
  return [...ids]
}
