import type { StoredLetter } from '../../dead-letters.ts'
import type { AttemptEntry } from '../../inbox.ts'

/** The consumer's tables. Times are microseconds of the database's clock. */
export interface ConsumerRow {
  readonly name: string
  readonly inboxForMs: number
  readonly rememberForMs: number
  readonly lettersForMs: number
  /** The last time that a process reported that it runs this consumer. */
  readonly seenAt: number
}

export interface InboxRow {
  readonly id: string
  readonly consumer: string
  readonly source: string
  readonly message: string
  readonly at: number
}

/** The compact form of an old inbox row. */
export interface MarkRow {
  readonly id: string
  readonly forgetAt: number
}

export interface AttemptRow {
  readonly id: string
  readonly consumer: string
  readonly attempts: number
  readonly unfinished: number
  readonly timeline: readonly AttemptEntry[]
}

/** `parkedAt` and `settledAt` are milliseconds, as in the interface of the store. */
export type LetterRow = Omit<StoredLetter, 'blocks'>

export interface PositionRow {
  readonly consumer: string
  readonly source: string
  readonly partition: string
  readonly next: string
}

export const positionKey = (consumer: string, source: string, partition: string): string =>
  JSON.stringify([consumer, source, partition])
