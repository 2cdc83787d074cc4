/**
 * Messages that a consumer gave up on, one letter per consumer, source and message id. A parked letter stays until an
 * operator redrives it under the same id, or discards it.
 */
export interface DeadLetters {
  /** Lists letters in the order in which they were parked. */
  list(params: ListLettersParams): Promise<readonly StoredLetter[]>
  get(params: { readonly id: string }): Promise<StoredLetter | null>
  count(params: { readonly filter: LetterFilter }): Promise<LetterCounts>
  /** Settles parked or skipped letters without running them. Returns how many there were. */
  discard(params: { readonly filter: LetterFilter; readonly limit: number }): Promise<number>
}

export type LetterState = 'parked' | 'skipped' | 'redriven' | 'discarded'

/** Indexed by the number that the database stores. */
export const LETTER_STATES: readonly (LetterState | undefined)[] = [
  undefined,
  'parked',
  'skipped',
  'redriven',
  'discarded',
]

/**
 * 'failed': its last attempt failed. 'crashed': its process died again and again. 'unreadable': it cannot be read.
 * 'unknownType': its type has no handler. 'behind': an earlier message of its aggregate is parked. 'orphaned': its
 * predecessor never came. 'refused': the handler threw `final()`.
 */
export type LetterReason = 'failed' | 'crashed' | 'unreadable' | 'unknownType' | 'behind' | 'orphaned' | 'refused'

/** A dead letter, as a consumer writes it. */
export interface Letter {
  /** The hash of (consumer, source, message id), as a UUID. */
  readonly id: string
  readonly source: string
  readonly message: string
  readonly type: string
  readonly aggregate: string | null
  /** The hash of its predecessor. Null: there is none. */
  readonly previous: string | null
  readonly tenant: string | null
  readonly state: 'parked' | 'skipped'
  readonly reason: LetterReason
  /** The last error, in one line. Null: no error was thrown. */
  readonly error: string | null
  /** Equal for errors of the same kind from the same place. */
  readonly fingerprint: string
  /** JSON text: errors and their causes, with stacks. */
  readonly causes: string
  /** The message as it arrived. */
  readonly body: string
  /** The body as the consumer's `mask` shows it. Null: the body is not masked. */
  readonly shown: string | null
  /** JSON text. */
  readonly headers: string
  readonly traceparent: string | null
  /** Attempts that are not recorded elsewhere, such as the one before an unreadable message. */
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
  /** Grows in the order in which letters are parked. */
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
  /** Milliseconds since 1970: only letters that were parked at `from` or later, and before `to`. */
  readonly from?: number | undefined
  readonly to?: number | undefined
}

export interface ListLettersParams {
  readonly filter: LetterFilter
  readonly limit: number
  /** Only letters after this `seq`. */
  readonly after?: number | undefined
  /** false: letters behind each letter are not counted, and `blocks` is 0. */
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
