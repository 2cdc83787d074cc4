import { describe, expect, test } from 'vitest'
import { createSha256, sha256, sha256Hex } from './sha256.ts'

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')

describe('sha256', () => {
  test('the vectors of FIPS 180-4', () => {
    const abc = 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'
    expect(hex(sha256('abc'))).toBe(abc)
    expect(sha256Hex('abc')).toBe(abc)
    expect(hex(sha256(new TextEncoder().encode('abc')))).toBe(abc)
    expect(hex(sha256())).toBe('e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855')
  })

  test('parts are hashed as one, text as UTF-8', () => {
    expect(hex(sha256('zü', new TextEncoder().encode('rich')))).toBe(sha256Hex('zürich'))
    expect(hex(createSha256().update('zü').update('').update('rich').digest())).toBe(sha256Hex('zürich'))
    expect(createSha256().update(new Uint8Array(0)).digestHex()).toBe(sha256Hex(''))
  })
})
