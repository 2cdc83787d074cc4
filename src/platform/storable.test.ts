import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isStorable, jsonWith, spell, storable, unspell } from './storable.ts'

const texts = fc
  .array(
    fc.constantFrom('\0', '\ud83d', '\ude00', '\u{1f600}', '\\', 'u', '{', '0', '5c', '}', '\\u{0}', '\\u0000', 'a'),
  )
  .map((parts) => parts.join(''))

describe('what a database can hold', () => {
  test('every text can be spelled, no two alike, and read back', () => {
    fc.assert(
      fc.property(texts, texts, (a, b) => {
        expect(isStorable(spell(a))).toBe(true)
        expect(unspell(spell(a))).toBe(a)
        expect(spell(a) === spell(b)).toBe(a === b)
        expect(isStorable(storable(a))).toBe(true)
        if (isStorable(a)) expect(storable(a)).toBe(a)
        if (isStorable(a) && !a.includes('\\u{')) expect(spell(a)).toBe(a)
      }),
      { numRuns: 5_000 },
    )
    expect(spell('a\0\ud83d\\u{0}\\u0000')).toBe('a\\u{0}\\u{d83d}\\u{5c}u{0}\\u0000')
  })

  test('JSON has no escape that a database refuses', () => {
    fc.assert(
      fc.property(fc.dictionary(texts, fc.array(texts)), (value) => {
        const json = jsonWith(spell, value)
        expect(json).not.toMatch(/(?<!\\)(?:\\\\)*\\u(?:0000|d[89a-f][0-9a-f]{2})/)
        expect(JSON.parse(jsonWith(unspell, JSON.parse(json)))).toEqual(value)
      }),
      { numRuns: 2_000 },
    )
  })
})
