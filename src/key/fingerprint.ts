import { sha256Hex } from '../platform/sha256.ts'
import { canonicalValue } from './canonical-value.ts'
import { uuidOf } from './uuid.ts'

/**
 * Stored beside every fingerprint. It rises with any change to what goes into the hash; the golden vectors in the
 * tests say when that is.
 */
export const FINGERPRINT_VERSION = 1

/** The fingerprint of `run()`'s input: 128 bits of SHA-256 over its canonical JSON, written as a UUID. */
export function fingerprintInput(input: unknown, ignore?: readonly string[]): string {
  return uuidOf(sha256Hex(`eo:fp:${FINGERPRINT_VERSION}:input;${canonicalValue(input, ignore)}`))
}

/** Constant time over equal lengths: how much of a stored fingerprint matches is nobody's business. */
export function sameFingerprint(a: string, b: string): boolean {
  if (a.length !== b.length) return false
  let difference = 0
  for (let i = 0; i < a.length; i++) difference |= a.charCodeAt(i) ^ b.charCodeAt(i)
  return difference === 0
}

/** A fingerprint of another version cannot be compared: an upgrade of ours is nobody's 422. */
export function compareFingerprint(
  stored: { readonly fp: string; readonly version: number },
  current: string,
): 'same' | 'different' | 'incomparable' {
  if (stored.version !== FINGERPRINT_VERSION) return 'incomparable'
  return sameFingerprint(stored.fp, current) ? 'same' : 'different'
}
