import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { canonicalForm } from './form.ts'

const pairs = fc.array(fc.tuple(fc.string({ unit: 'grapheme' }), fc.string({ unit: 'grapheme' })), { maxLength: 8 })

/** CPU time, not the wall clock: other processes must not fail this test. Quadratic time would be minutes. */
function cpuMs(): number {
  return process.cpuUsage().user / 1_000
}

describe('canonicalForm', () => {
  test('two queries have the same text if and only if they hold the same lists under the same names', () => {
    const few = fc.array(fc.tuple(fc.constantFrom('a', 'b', 'c c'), fc.constantFrom('1', '2', '&=')), { maxLength: 4 })
    const lists = (entries: readonly (readonly [string, string])[]): string =>
      JSON.stringify(['a', 'b', 'c c'].map((name) => entries.filter(([n]) => n === name).map(([, value]) => value)))
    fc.assert(
      fc.property(few, few, (a, b) => {
        const [one, two] = [a, b].map((entries) => canonicalForm(new URLSearchParams(entries).toString()))
        expect(one === two).toBe(lists(a) === lists(b))
      }),
      { numRuns: 5_000 },
    )
  })

  test('means the same to URLSearchParams as the original', () => {
    fc.assert(
      fc.property(pairs, (entries) => {
        const bag = (list: Iterable<readonly [string, string]>): string[] =>
          [...list].map((pair) => JSON.stringify(pair)).sort()
        const query = new URLSearchParams(entries)
        expect(bag(new URLSearchParams(canonicalForm(`?${query.toString()}`)))).toEqual(bag(query))
      }),
    )
  })

  test('spellings that mean the same', () => {
    const same: readonly (readonly string[])[] = [
      ['a=1&b=2', '?b=2&a=1', '&&b=2&a=1&', '%61=%31&b=2'],
      ['a=', 'a', '?a', '&a='],
      ['a=b%20c', 'a=b+c'],
      ['a=%7E', 'a=~', 'a=%7e'],
      ['a=%', 'a=%25'],
      ['a=%zz', 'a=%25zz'],
      ['a=%C3%A9', 'a=%c3%a9', 'a=\u00c3\u00a9'],
      ['', '?', '&', '&&'],
      ['a=1=2', 'a=1%3D2'],
      ['=x', '&=x'],
    ]
    const texts = same.map((spellings) => new Set(spellings.map(canonicalForm)))
    for (const spelled of texts) expect(spelled.size).toBe(1)
    expect(new Set(texts.flatMap((spelled) => [...spelled])).size).toBe(same.length)
  })

  test('spellings that do not', () => {
    const all = [
      'a=+',
      'a=%2B',
      'a=%FF',
      'a=%FE',
      'a=%EF%BF%BD',
      'a=\u20ac',
      'a=%20AC',
      'a=%20ac',
      'a=\ud800',
      'a=%2',
      'a=1&a=2',
      'a=2&a=1',
    ]
    expect(new Set(all.map(canonicalForm)).size).toBe(all.length)
  })

  test('1 MB of the worst stays linear', { timeout: 120_000 }, () => {
    const million = 1_000_000
    const worst = ['&', '=', '%', '+', 'a', '%4', 'z=1&', '\u20ac'].map((scrap) => scrap.repeat(million / scrap.length))
    const start = cpuMs()
    for (const text of worst) expect(canonicalForm(text)).toBeTypeOf('string')
    expect(cpuMs() - start).toBeLessThan(10_000)
  })
})
