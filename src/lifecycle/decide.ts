import { isErased, type ClaimView, type StoredRecord } from './record.ts'

export interface ClaimRules {
  readonly fingerprint: string
  readonly fingerprintVersion: number
  /** What a retry after `replayFor` gets until `goneFor` has passed. */
  readonly expired: 'gone' | 'rerun'
}

export type Decision =
  /** This call won the key: run the handler. */
  | { readonly do: 'run' }
  /** The statement's snapshot may be older than its locks: read once more before any refusal. */
  | { readonly do: 'reread' }
  /** The lock is held, but the record was swept in between. */
  | { readonly do: 'claimAgain' }
  /** The old life is over: claim the record under a new life. */
  | { readonly do: 'renew'; readonly record: StoredRecord }
  /** A lapsed lease: the next attempt takes over with a higher token. */
  | { readonly do: 'takeOver'; readonly record: StoredRecord }
  | { readonly do: 'replay'; readonly record: StoredRecord }
  | { readonly do: 'mismatch' }
  | { readonly do: 'inFlight'; readonly retryAfterMs: number | null }
  | { readonly do: 'unknown' }
  | { readonly do: 'gone' }

/**
 * Decides what one call does, by what its claim saw. It has no side effects: all rules of a key's life are here and in
 * `machine.ts`. The order of the checks is the protocol: the record counts before the locks, and 422 comes before 409.
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
    // A tombstone, even with `rerun`: an erasure must not make the key new.
    if (isErased(record)) return { do: 'gone' }
    if (record.expiresInMs <= 0 && policy.expired === 'rerun') return { do: 'renew', record }
  }
  if (isMismatch(record, policy)) return { do: 'mismatch' }
  if (record.state === 'completed') return record.expiresInMs > 0 ? { do: 'replay', record } : { do: 'gone' }
  if (record.state === 'unknown') return { do: 'unknown' }
  const leaseLeftMs = record.leaseLeftMs ?? 0
  if (leaseLeftMs > 0) return { do: 'inFlight', retryAfterMs: leaseLeftMs }
  // After `replayFor`, a lapsed operation is not taken over: the provider may have forgotten its derived key.
  return record.expiresInMs > 0 ? { do: 'takeOver', record } : { do: 'unknown' }
}

/** Fingerprints of different versions are not compared, because an upgrade of the library must not cause a 422. */
export function isMismatch(
  record: StoredRecord,
  policy: Pick<ClaimRules, 'fingerprint' | 'fingerprintVersion'>,
): boolean {
  return record.fingerprintVersion === policy.fingerprintVersion && !sameText(record.fingerprint, policy.fingerprint)
}

/** Takes constant time for equal lengths, so that response times do not reveal a stored fingerprint. */
function sameText(a: string, b: string): boolean {
  if (a.length !== b.length) return false
  let difference = 0
  for (let i = 0; i < a.length; i++) difference |= a.charCodeAt(i) ^ b.charCodeAt(i)
  return difference === 0
}
