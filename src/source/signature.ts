import { createHmac, timingSafeEqual } from 'node:crypto'
import { milliseconds, type Duration } from '../duration.ts'
import { invalid } from '../options.ts'
import { isStorable } from '../platform/storable.ts'
import type { Pushed, PushedRefusal } from './source.ts'

const TOLERANCE_MS_DEFAULT = 300_000
const TOLERANCE_MS_MAX = 86_400_000

/** One secret, or several while you rotate it. */
export type Secrets = string | readonly string[]

export function checkSecrets(secret: Secrets, whose: string): readonly string[] {
  const secrets = typeof secret === 'string' ? [secret] : secret
  const usable =
    Array.isArray(secrets) && secrets.length > 0 && secrets.every((s) => typeof s === 'string' && s.length >= 8)
  if (!usable) throw invalid(`${whose} needs a secret of at least 8 characters`)
  return secrets
}

export function toleranceOf(value: Duration | undefined): number {
  return milliseconds(value, TOLERANCE_MS_DEFAULT, { option: 'tolerance', min: 1_000, max: TOLERANCE_MS_MAX })
}

/** Whether one of the signatures was made with one of the secrets. Compares in constant time. */
export function signedBy(
  secrets: readonly (string | Uint8Array)[],
  signatures: readonly Uint8Array[],
  ...parts: readonly (string | Uint8Array)[]
): boolean {
  let matches = false
  for (const secret of secrets) {
    const hmac = createHmac('sha256', secret)
    for (const part of parts) hmac.update(part)
    const expected = hmac.digest()
    for (const signature of signatures) {
      if (signature.byteLength === expected.byteLength && timingSafeEqual(signature, expected)) matches = true
    }
  }
  return matches
}

/**
 * Whether a timestamp (seconds since 1970) is recent. An old or future timestamp may be a recorded request that is
 * replayed.
 */
export function isFresh(seconds: string, now: number, toleranceMs: number): boolean {
  return /^\d{1,12}$/.test(seconds) && Math.abs(now - Number(seconds) * 1_000) <= toleranceMs
}

export function refused(code: PushedRefusal, detail: string): Pushed {
  return { kind: 'refused', code, detail }
}

/** Parses a JSON object. Undefined: the body is not one. */
export function jsonObject(body: Uint8Array): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(strict.decode(body))
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined
  } catch {
    return undefined
  }
}

export function isId(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value.length <= 255 && isStorable(value)
}

const strict = new TextDecoder('utf-8', { fatal: true })
