import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { canonicalDigest } from './digest-field.ts'

const refused: unknown = expect.objectContaining({ name: 'OnceError', code: 'ONCE_BODY_INVALID' })
const sha256 = `sha-256=:${createHash('sha256').update('a').digest('base64')}:`
const sha512 = `sha-512=:${createHash('sha512').update('a').digest('base64')}:`

describe('canonicalDigest', () => {
  test('known algorithms, sorted; others left out', () => {
    expect(canonicalDigest(sha256)).toBe(sha256)
    expect(canonicalDigest(` ${sha512} ,${sha256}, md5=:1B2M2Y8AsgTpgAmY7PhCfg==:`)).toBe(`${sha256},${sha512}`)
  })

  test('nothing weaker stands for a body, and nothing malformed', () => {
    const values = ['', 'sha-256', 'sha-256=', 'sha-256=::', sha256.replace('sha-256', 'md5'), sha256.slice(0, -1)]
    for (const value of [
      ...values,
      `${sha256},${sha256}`,
      `${sha256};a=1`,
      sha512.replace('512', '256'),
      ','.repeat(1_000_000),
    ]) {
      expect(() => canonicalDigest(value)).toThrow(refused)
    }
  })
})
