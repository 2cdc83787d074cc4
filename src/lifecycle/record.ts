/**
 * The stored record of one operation. All times are relative to the database's clock at the moment of reading, so that
 * nobody compares them with an application clock.
 */
export type RecordState = 'inProgress' | 'completed' | 'unknown'

export interface StoredRecord {
  readonly state: RecordState
  readonly fingerprint: string
  readonly fingerprintVersion: number
  /** The fencing token. It only rises for a key, even across a sweep. A decimal string, because it has 64 bits. */
  readonly token: string
  /** The token of this life's first claim. Ids derive from it, so a second life of the key has other ids. */
  readonly life: string
  readonly attempt: number
  /** Milliseconds until the lease lapses. Negative: it has lapsed. Null: the record has no lease. */
  readonly leaseLeftMs: number | null
  /** Milliseconds until the answer is gone. */
  readonly expiresInMs: number
  /** Milliseconds until the key is new again. */
  readonly forgetInMs: number
  /** The UTC day (YYYY-MM-DD) whose partition holds the answer. */
  readonly answerDay: string
}

/** Fingerprints have versions from 1 on, and are only compared within a version. */
const ERASED_VERSION = 0

/** What the record of an erased operation gets. It expires with `forgetAt`, so that it is never renewed before. */
export const ERASED_FINGERPRINT: Pick<StoredRecord, 'fingerprint' | 'fingerprintVersion'> = {
  fingerprint: '00000000-0000-0000-0000-000000000000',
  fingerprintVersion: ERASED_VERSION,
}

/** Whether answer and fingerprint of the operation were erased. */
export function isErased({ fingerprintVersion }: Pick<StoredRecord, 'fingerprintVersion'>): boolean {
  return fingerprintVersion === ERASED_VERSION
}

/** What one claim statement saw, or one read after it. */
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
