import type { ClaimView, StoredRecord } from './record.ts'

export interface ClaimRules {
  readonly fingerprint: string
  readonly fingerprintVersion: number
  /** What a retry after `replayFor` gets until `goneFor` has passed. */
  readonly expired: 'gone' | 'rerun'
}

export type Decision =
  /** The claim is ours: run the handler. */
  | { readonly do: 'run' }
  /** The statement's snapshot may be older than its locks: read once more before refusing anyone. */
  | { readonly do: 'reread' }
  /** Won the lock, yet no record: it was swept in between. */
  | { readonly do: 'claimAgain' }
  /** The old life is over: claim the row under a new life. */
  | { readonly do: 'renew'; readonly record: StoredRecord }
  /** A lapsed lease: the next attempt takes over with a higher token. */
  | { readonly do: 'takeOver'; readonly record: StoredRecord }
  | { readonly do: 'replay'; readonly record: StoredRecord }
  | { readonly do: 'mismatch' }
  | { readonly do: 'inFlight'; readonly retryAfterMs: number | null }
  | { readonly do: 'unknown' }
  | { readonly do: 'gone' }

/**
 * What to do about one view of one key. Pure: the whole life of a key is in this function and `machine.ts`.
 * The order of the questions is the protocol: the record speaks before the locks, 422 before 409.
 */
export function decide(view: ClaimView, policy: ClaimRules): Decision {
  if (view.inserted) return { do: 'run' }
  if (view.record) return decideByRecord(view.record, policy)
  if (!view.reread) return { do: 'reread' }
  if (view.sameRunning) return { do: 'inFlight', retryAfterMs: null }
  if (view.otherRunning) return { do: 'mismatch' }
  return { do: 'claimAgain' }
}

function decideByRecord(record: StoredRecord, policy: ClaimRules): Decision {
  if (record.state === 'completed') {
    if (record.forgetInMs <= 0) return { do: 'renew', record }
    if (record.expiresInMs <= 0 && policy.expired === 'rerun') return { do: 'renew', record }
  }
  if (isMismatch(record, policy)) return { do: 'mismatch' }
  if (record.state === 'completed') return record.expiresInMs > 0 ? { do: 'replay', record } : { do: 'gone' }
  if (record.state === 'unknown') return { do: 'unknown' }
  const leaseLeftMs = record.leaseLeftMs ?? 0
  if (leaseLeftMs > 0) return { do: 'inFlight', retryAfterMs: leaseLeftMs }
  // Past its time a lapsed operation is not taken over: an outside provider may have forgotten its derived key too.
  return record.expiresInMs > 0 ? { do: 'takeOver', record } : { do: 'unknown' }
}

/** A fingerprint of another version is compared with its own algorithm or not at all: an upgrade is nobody's 422. */
function isMismatch(record: StoredRecord, policy: ClaimRules): boolean {
  return record.fingerprintVersion === policy.fingerprintVersion && !sameText(record.fingerprint, policy.fingerprint)
}

/** Constant time over equal lengths: how much of a stored fingerprint matches is nobody's business. */
function sameText(a: string, b: string): boolean {
  if (a.length !== b.length) return false
  let difference = 0
  for (let i = 0; i < a.length; i++) difference |= a.charCodeAt(i) ^ b.charCodeAt(i)
  return difference === 0
}
