import { onceError } from '../errors.ts'
import { invalid, wholeNumber } from '../options.ts'
import { LETTER_STATES } from '../store/dead-letters.ts'
import { isDate, isStorable, storableTime } from '../platform/storable.ts'
import type {
  DeadLetters as StoredLetters,
  LetterCounts,
  LetterFilter,
  LetterReason,
  LetterState,
  StoredLetter,
} from '../store/dead-letters.ts'
import type { AttemptEntry } from '../store/inbox.ts'
import type { Redrives } from '../store/redrives.ts'
import type { Accountable } from './accountable.ts'
import { discardLetters } from './discard.ts'
import { exportLetters, importLetters, type ImportedLetters, type Importing } from './ndjson.ts'
import { jsonIn } from '../platform/stored-json.ts'
import { UUID } from '../platform/uuid.ts'

export type { ImportedLetters } from './ndjson.ts'

/** Selects dead letters: every given field must match. By default only parked letters match; see `state`. */
export interface DeadLetterFilter {
  consumer?: string
  source?: string
  type?: string
  aggregate?: string
  tenant?: string
  /** The kind of error. Letters with the same kind of error have the same fingerprint. */
  fingerprint?: string
  reason?: LetterReason
  state?: LetterState | readonly LetterState[] | 'any'
  /** Only letters that were parked at this time or later. */
  since?: Date
  /** Only letters that were parked before this time. */
  until?: Date
}

/** A dead letter, with its body masked by the consumer's `mask`. */
export interface DeadLetter {
  /** The hash of consumer, source and message id. `get` takes it. */
  readonly id: string
  readonly consumer: string
  readonly source: string
  /** The message's own id. A redrive keeps it. */
  readonly message: string
  readonly type: string
  readonly aggregate: string | null
  readonly tenant: string | null
  readonly state: LetterState
  readonly reason: LetterReason
  /** The last error, in one line. */
  readonly error: string | null
  readonly fingerprint: string
  readonly attempts: number
  readonly timeline: readonly { readonly at: Date; readonly error: string; readonly fingerprint: string }[]
  /** The last error and what caused it, outermost first. */
  readonly causes: readonly {
    readonly name: string
    readonly message: string
    readonly code?: string
    readonly stack?: string
  }[]
  /** The message as it came, masked by the consumer's `mask`. */
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
  readonly traceparent: string | null
  readonly parkedAt: Date
  readonly settledAt: Date | null
  /** Other messages of its aggregate that are parked behind it. */
  readonly blocks: number
  /** Pass it as `after` to list the next page. */
  readonly seq: number
}

export interface DeadLetters {
  /** Lists letters in the order in which they were parked. */
  list(filter?: DeadLetterFilter, options?: { limit?: number; after?: number }): Promise<readonly DeadLetter[]>
  /** Returns one letter. With `reveal`, its body is not masked. */
  get(id: string, options?: { reveal?: boolean }): Promise<DeadLetter | null>
  /** Counts letters, in total and by kind. */
  count(filter?: DeadLetterFilter): Promise<LetterCounts>
  /**
   * Settles letters without running them, so that their successors may run. The audit records it. Returns how many.
   */
  discard(filter: DeadLetterFilter, by: Accountable & { limit?: number }): Promise<number>
  /**
   * Exports one JSON document per letter (NDJSON). Bodies are masked unless `reveal` is true. A masked letter cannot be
   * imported.
   */
  export(filter?: DeadLetterFilter, options?: { reveal?: boolean }): AsyncIterable<string>
  /**
   * Parks exported letters. It leaves out messages that are already known, were applied, or are running. Every line is
   * checked before it is imported.
   */
  import(lines: AsyncIterable<string> | Iterable<string>, by: Accountable): Promise<ImportedLetters>
}

const LIST_LIMIT_DEFAULT = 100
const LIST_LIMIT_MAX = 10_000
const PARTS = new Set([
  'consumer',
  'source',
  'type',
  'aggregate',
  'tenant',
  'fingerprint',
  'reason',
  'state',
  'since',
  'until',
])

export function deadLettersOf<Tx>(
  letters: StoredLetters,
  redrives: Redrives<Tx> | undefined,
  namespace: Importing,
): DeadLetters {
  return {
    export: (filter = {}, { reveal = false } = {}) => exportLetters(letters, storedFilter(filter), reveal),
    import(lines, by) {
      if (!redrives) throw onceError('ONCE_UNSUPPORTED', { detail: 'this store cannot import dead letters' })
      return importLetters(redrives, namespace, lines, by)
    },
    async list(filter = {}, { limit = LIST_LIMIT_DEFAULT, after } = {}) {
      const rows = await letters.list({
        filter: storedFilter(filter),
        limit: wholeNumber('limit', limit, LIST_LIMIT_MAX),
        after,
      })
      return rows.map((row) => letterOf(row, false))
    },
    async get(id, { reveal = false } = {}) {
      const row = UUID.test(id) ? await letters.get({ id }) : null
      return row && letterOf(row, reveal)
    },
    count: (filter = {}) => letters.count({ filter: storedFilter(filter) }),
    async discard(filter, by) {
      if (!redrives) throw onceError('ONCE_UNSUPPORTED', { detail: 'this store has no audit' })
      return discardLetters({ letters, redrives }, { filter: storedFilter(filter), asked: filter }, by)
    },
  }
}

/** Also used by the redrive and the command line. */
export function storedFilter(filter: DeadLetterFilter): LetterFilter {
  if (typeof filter !== 'object' || filter === null) throw invalid('the filter must be an object')
  for (const part of Object.keys(filter)) {
    if (!PARTS.has(part)) throw invalid(`unknown field '${part.slice(0, 40)}' in a filter of dead letters`)
  }
  const { state = 'parked', since, until, ...same } = filter
  for (const [name, text] of Object.entries(same)) {
    if (text !== undefined && (typeof text !== 'string' || !isStorable(text))) throw invalid(`${name} must be a string`)
  }
  for (const [name, date] of Object.entries({ since, until })) {
    if (date !== undefined && !isDate(date)) throw invalid(`${name} must be a Date`)
  }
  const states: readonly unknown[] | undefined = state === 'any' ? undefined : [state].flat()
  if (states && !states.every((of) => of !== undefined && (LETTER_STATES as readonly unknown[]).includes(of))) {
    throw invalid(`state must be one of ${LETTER_STATES.filter((of) => of !== undefined).join(', ')}, or any`)
  }
  return {
    ...same,
    states: states as readonly LetterState[] | undefined,
    from: since && storableTime(since).getTime(),
    to: until && storableTime(until).getTime(),
  }
}

function letterOf(row: StoredLetter, reveal: boolean): DeadLetter {
  const { timeline, causes, headers, shown, body, parkedAt, settledAt, previous: _previous, ...same } = row
  return {
    ...same,
    timeline: jsonIn<AttemptEntry[]>(timeline, []).map((entry) => ({ ...entry, at: new Date(entry.at) })),
    causes: jsonIn<DeadLetter['causes']>(causes, []),
    headers: jsonIn<DeadLetter['headers']>(headers, {}),
    body: reveal ? body : (shown ?? body),
    parkedAt: new Date(parkedAt),
    settledAt: settledAt === null ? null : new Date(settledAt),
  }
}
