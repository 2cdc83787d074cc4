import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type Alphabet, deriveEventId, deriveKey } from './derive.ts'

const id = '6d931a86-6356-a898-2a1b-06be1cdaf594'
const life = '1700000000000000'
const step = 'stripe.payment'

const refused: unknown = expect.objectContaining({ name: 'OnceError', code: 'ONCE_OPTION_INVALID' })

describe('deriveKey', () => {
  test('golden vectors: a change here sends other keys to providers, and a resumed step charges twice', () => {
    expect(deriveKey({ id, life, step })).toBe('ce94ca6089f70d1ffc439a8745b8e87bbbd789ea9f7899689d11a4cd21be9910')
    expect(deriveKey({ id, life: undefined, step, length: 32 })).toBe('c036c421dcd7b967cb9d4b9ba243f5b1')
    expect(deriveKey({ id, life, step, alphabet: 'base62', length: 40 })).toBe(
      '2VrJH6Idct7RfWq4JHSxqCktKbslhP5xFz9gptU8',
    )
    expect(deriveKey({ id, life, step, alphabet: 'base64url' })).toBe('Qkpvh0MpR0JaZi3nqn417uH64W0haOE_f0w9JCmyU6M')
    expect(deriveKey({ id, life, step, alphabet: 'uuid' })).toBe('ce94ca60-89f7-8d1f-bc43-9a8745b8e87b')
  })

  test('stable across attempts; different by identity, life and step', () => {
    const field = fc.string({ unit: fc.constantFrom('a', '1', ':', '-', 'u') })
    const any = fc.record({
      id: field,
      life: fc.option(field, { nil: undefined }),
      step: field.filter((s) => s !== ''),
    })
    fc.assert(
      fc.property(any, any, (a, b) => {
        const same = a.id === b.id && a.life === b.life && a.step === b.step
        expect(deriveKey(a) === deriveKey(b)).toBe(same)
      }),
      { numRuns: 2_000 },
    )
  })

  test('fits the length and the alphabet of the provider, and keeps 128 bits', () => {
    const alphabets: readonly (readonly [Alphabet, RegExp, number])[] = [
      ['hex', /^[0-9a-f]+$/, 32],
      ['base62', /^[0-9A-Za-z]+$/, 22],
      ['base64url', /^[0-9A-Za-z_-]+$/, 22],
      ['0123456789ABCDEFGHJKMNPQRSTVWXYZ', /^[0-9A-HJKMNP-TV-Z]+$/, 26],
      ['uuid', /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/, 36],
    ]
    for (const [alphabet, shape, shortest] of alphabets) {
      for (let length = 1; length < shortest; length++) {
        expect(() => deriveKey({ id, life, step, alphabet, length })).toThrow(refused)
      }
      for (let length = shortest; length <= 255; length++) {
        const key = deriveKey({ id, life, step, alphabet, length })
        expect(key).toMatch(shape)
        expect(key.length).toBeLessThanOrEqual(length)
      }
    }
  })

  test('the spelled characters are spread over the whole alphabet', () => {
    const counts = new Map<string, number>()
    for (let i = 0; i < 1_000; i++) {
      const key = deriveKey({ id, life, step: `s${i}`, alphabet: 'base62', length: 22 })
      for (const character of key) counts.set(character, (counts.get(character) ?? 0) + 1)
    }
    expect(counts.size).toBe(62)
    // 22,000 characters, 355 of each on average, standard deviation 19.
    expect(Math.min(...counts.values())).toBeGreaterThan(240)
    expect(Math.max(...counts.values())).toBeLessThan(470)
  })

  test('refuses what would be weak or ambiguous', () => {
    for (const alphabet of ['', 'abc', '0123456789abcdee', '0123456789abcde', '😀'.repeat(16), '😀0123456789abcde']) {
      expect(() => deriveKey({ id, life, step, alphabet })).toThrow(refused)
    }
    for (const length of [0, -1, Number.NaN, 63.5]) {
      expect(() => deriveKey({ id, life, step, length })).toThrow(refused)
    }
    expect(() => deriveKey({ id, life, step: '' })).toThrow(refused)
  })
})

describe('deriveEventId', () => {
  test('golden vectors: a change here makes inboxes apply a resent event twice', () => {
    expect(deriveEventId({ id, life, ordinal: 0 })).toBe('835ce245-3739-8cf7-8434-2df76576abb6')
    expect(deriveEventId({ id, life: undefined, ordinal: 12 })).toBe('71e91525-ff1c-8561-87ae-bdeecd7a7e75')
  })

  test('a valid UUID of version 8, different by identity, life and ordinal', () => {
    const seen = new Set<string>()
    for (const of of [id, `${id}1`]) {
      for (const inLife of [undefined, '', '1', '11', life]) {
        for (let ordinal = 0; ordinal < 20; ordinal++) {
          const event = deriveEventId({ id: of, life: inLife, ordinal })
          expect(event).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
          seen.add(event)
        }
      }
    }
    expect(seen.size).toBe(200)
  })

  test('refuses an ordinal that is none', () => {
    for (const ordinal of [-1, 0.5, Number.NaN, 2 ** 53]) {
      expect(() => deriveEventId({ id, life, ordinal })).toThrow(refused)
    }
  })
})
