import { sha256Hex } from '../platform/sha256.ts'
import { canonicalValue } from './canonical-value.ts'
import { uuidOf } from './uuid.ts'

/**
 * Stored with every fingerprint. It must rise with any change to the hashed content. The fixed examples in the tests
 * show such changes.
 */
export const FINGERPRINT_VERSION = 1

/** The fingerprint of the input of `run()`: 128 bits of SHA-256 over its canonical JSON, written as a UUID. */
export function fingerprintInput(input: unknown, ignore?: readonly string[]): string {
  return uuidOf(sha256Hex(`eo:fp:${FINGERPRINT_VERSION}:input;${canonicalValue(input, ignore)}`))
}

/** The fingerprint of `null`, for operations without an input. It needs no canonical JSON. */
export function fingerprintOfNull(): string {
  return uuidOf(sha256Hex(`eo:fp:${FINGERPRINT_VERSION}:input;null`))
}

/** Takes constant time for equal lengths, so that response times do not reveal a stored fingerprint. */
export function sameFingerprint(a: string, b: string): boolean {
  if (a.length !== b.length) return false
  let difference = 0
  for (let i = 0; i < a.length; i++) difference |= a.charCodeAt(i) ^ b.charCodeAt(i)
  return difference === 0
}

/** Fingerprints of different versions are not compared, because an upgrade of the library must not cause a 422. */
export function compareFingerprint(
  stored: { readonly fp: string; readonly version: number },
  current: string,
): 'same' | 'different' | 'incomparable' {
  if (stored.version !== FINGERPRINT_VERSION) return 'incomparable'
  return sameFingerprint(stored.fp, current) ? 'same' : 'different'
}
