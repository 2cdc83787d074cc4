import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { canonicalDecimal } from './decimal.ts'

describe('canonicalDecimal', () => {
  test('spells every double as ECMAScript does', () => {
    const doubles = fc.oneof(
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.integer(),
      fc.float({ noNaN: true }),
    )
    fc.assert(
      fc.property(doubles.filter(Number.isFinite), (number) => {
        expect(canonicalDecimal(JSON.stringify(number))).toBe(String(number))
        expect(canonicalDecimal(number.toExponential())).toBe(String(number))
      }),
      { numRuns: 5_000 },
    )
  })

  test('two spellings have the same text if and only if they have the same value', () => {
    const digits = fc.string({ unit: fc.constantFrom('0', '1', '9'), minLength: 1, maxLength: 12 })
    const number = fc.record({
      sign: fc.constantFrom('', '-'),
      whole: digits,
      fraction: digits,
      exponent: fc.integer({ min: -30, max: 30 }),
    })
    const source = (n: { sign: string; whole: string; fraction: string; exponent: number }): string =>
      `${n.sign}${n.whole.replace(/^0+(?=.)/, '')}.${n.fraction}e${n.exponent}`
    /** The exact value, times 10^60. */
    const exact = (n: { sign: string; whole: string; fraction: string; exponent: number }): bigint =>
      BigInt(n.whole + n.fraction) * 10n ** BigInt(60 + n.exponent - n.fraction.length) * (n.sign === '-' ? -1n : 1n)
    fc.assert(
      fc.property(number, number, fc.nat(5), (a, b, shift) => {
        expect(canonicalDecimal(source(a)) === canonicalDecimal(source(b))).toBe(exact(a) === exact(b))
        const moved = { ...a, fraction: a.fraction + '0'.repeat(shift) }
        expect(canonicalDecimal(source(moved))).toBe(canonicalDecimal(source(a)))
      }),
      { numRuns: 5_000 },
    )
  })

  test('the edges of plain notation', () => {
    const edges = {
      '1e20': '100000000000000000000',
      '1e21': '1e+21',
      '1e-6': '0.000001',
      '1e-7': '1e-7',
      '12e20': '1.2e+21',
    }
    for (const [source, text] of Object.entries(edges)) expect(canonicalDecimal(source)).toBe(text)
  })

  test('exponents beyond arithmetic keep their source text', () => {
    expect(canonicalDecimal('1e1000000000000000')).toBe('#1e1000000000000000')
    expect(canonicalDecimal('1e-0000000000000000001')).toBe('0.1')
    expect(canonicalDecimal('-0e9999999999999999999')).toBe('0')
  })
})
