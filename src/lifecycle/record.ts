/**
 * What a store remembers of one operation. All times are distances from the database's own clock at the moment of
 * reading, so nobody can compare them with an application clock by mistake.
 */
export type RecordState = 'inProgress' | 'completed' | 'unknown'

export interface StoredRecord {
  readonly state: RecordState
  readonly fingerprint: string
  readonly fingerprintVersion: number
  /** Fencing token: increases for ever per key, also across a sweep. A decimal string: it is a 64-bit number. */
  readonly token: string
  /** The token of this life's first claim; ids derive from it, so a key's second life gets other ids. */
  readonly life: string
  readonly attempt: number
  /** Milliseconds until the lease lapses; negative when it has; null when the record has no lease. */
  readonly leaseLeftMs: number | null
  /** Milliseconds until the answer is gone. */
  readonly expiresInMs: number
  /** Milliseconds until the key is new again. */
  readonly forgetInMs: number
  /** The UTC day (YYYY-MM-DD) whose partition holds the answer. */
  readonly answerDay: string
}

/** What one claim statement, or one re-read after it, showed. */
export interface ClaimView {
  /** The claim inserted its record: this caller runs the operation. */
  readonly inserted: boolean
  /** A running transaction holds the lock of this identity and this fingerprint. */
  readonly sameRunning: boolean
  /** A running transaction holds the lock of this identity under another fingerprint. */
  readonly otherRunning: boolean
  readonly record: StoredRecord | null
  /** The record was read by a statement that began after the locks were tried. */
  readonly reread: boolean
}
