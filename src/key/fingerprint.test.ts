import { describe, expect, test } from 'vitest'
import {
  compareFingerprint,
  FINGERPRINT_VERSION,
  fingerprintInput,
  fingerprintOfNull,
  sameFingerprint,
} from './fingerprint.ts'

const shape = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

describe('fingerprintInput', () => {
  test('golden vectors: a change here needs another FINGERPRINT_VERSION, or every retry is a 422', () => {
    expect(FINGERPRINT_VERSION).toBe(1)
    expect(fingerprintInput({ amount: 500, currency: 'eur', lines: [1.5, 'é', null] })).toBe(
      '4bf1ea3d-5172-6347-8379-20ab4e3f33ba',
    )
    expect(fingerprintInput(undefined)).toBe('4e8d7863-444f-5478-cd47-a64863e091d8')
    expect(fingerprintInput(null)).toBe('33727ce8-ff92-b115-968d-82f2276d015a')
  })

  test('the order of members does not matter, ignored members do not, everything else does', () => {
    const base = fingerprintInput({ a: 1, b: { c: 2, d: 3 } })
    expect(base).toMatch(shape)
    expect(fingerprintInput({ b: { d: 3, c: 2 }, a: 1 })).toBe(base)
    expect(fingerprintInput({ a: 1, b: { c: 2, d: 3 }, at: 'now' }, ['/at'])).toBe(base)
    const others = [{ a: 1, b: { c: 2, d: 4 } }, { a: '1', b: { c: 2, d: 3 } }, { a: 1, b: [2, 3] }, undefined, '', 0]
    expect(new Set([base, ...others.map((input) => fingerprintInput(input))]).size).toBe(others.length + 1)
  })
})

test('fingerprintOfNull is the fingerprint of null', () => expect(fingerprintOfNull()).toBe(fingerprintInput(null)))

describe('comparing', () => {
  const one = fingerprintInput(1)
  const two = fingerprintInput(2)

  test('sameFingerprint is equality', () => {
    expect(sameFingerprint(one, fingerprintInput(1))).toBe(true)
    expect(sameFingerprint(one, two)).toBe(false)
    for (let i = 0; i < one.length; i++) {
      expect(sameFingerprint(one, `${one.slice(0, i)}x${one.slice(i + 1)}`)).toBe(false)
    }
    expect(sameFingerprint(one, one.slice(0, -1))).toBe(false)
    expect(sameFingerprint('', '')).toBe(true)
  })

  test('where the first difference stands does not show in the time', () => {
    const early = `x${one.slice(1)}`
    const late = `${one.slice(0, -1)}x`
    const time = (other: string): number => {
      const start = process.cpuUsage().user
      let same = 0
      for (let i = 0; i < 50_000; i++) same += sameFingerprint(one, other) ? 1 : 0
      return same === 0 ? process.cpuUsage().user - start : Number.NaN
    }
    // The fastest of many rounds is what the code costs; the rest is the machine. An early exit is 20 times faster.
    const rounds = Array.from({ length: 10 }, () => [time(early), time(late)] as const)
    const [fastestEarly, fastestLate] = [0, 1].map((i) => Math.min(...rounds.map((round) => round[i] ?? 0)))
    expect(Number(fastestLate) / Number(fastestEarly)).toBeGreaterThan(0.4)
    expect(Number(fastestLate) / Number(fastestEarly)).toBeLessThan(2.5)
  })

  test('another version is incomparable, never a mismatch', () => {
    const version = FINGERPRINT_VERSION
    expect(compareFingerprint({ fp: one, version }, one)).toBe('same')
    expect(compareFingerprint({ fp: two, version }, one)).toBe('different')
    expect(compareFingerprint({ fp: two, version: version - 1 }, one)).toBe('incomparable')
    expect(compareFingerprint({ fp: one, version: version + 1 }, one)).toBe('incomparable')
  })
})
