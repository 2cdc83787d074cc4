import fc from 'fast-check'
import { beforeAll, describe, expect, test } from 'vitest'
import { isOnceError, type OnceCode } from '../errors.ts'
import { parseKeyHeader } from './header.ts'
import { checkKey } from './parse-key.ts'

function withCode(code: OnceCode): unknown {
  return expect.objectContaining({ name: 'OnceError', code })
}

/** RFC 8941, section 4.1.6. */
function serialize(key: string): string {
  return `"${key.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`
}

function isKey(text: string): boolean {
  try {
    return checkKey(text) === text
  } catch {
    return false
  }
}

function isTyped(value: string): boolean {
  try {
    return isKey(parseKeyHeader(value))
  } catch (error) {
    return isOnceError(error, 'ONCE_KEY_INVALID') || isOnceError(error, 'ONCE_KEY_TWICE')
  }
}

const printable = fc.string({ unit: fc.integer({ min: 0x20, max: 0x7e }).map((unit) => String.fromCharCode(unit)) })
const anyKey = fc
  .oneof(printable, fc.string({ unit: fc.constantFrom('"', '\\', ';', ',', ' ', '=', 'a') }))
  .filter(isKey)

/** CPU time, not the wall clock: other processes must not fail this test. Quadratic time would be minutes. */
function cpuMs(): number {
  return process.cpuUsage().user / 1_000
}

/** Most of the cost of a refusal is its stack, which nobody reads here. */
beforeAll(() => {
  Error.stackTraceLimit = 0
})

describe('parseKeyHeader', () => {
  test('quoted, quoted with parameters and bare are the same key', () => {
    const uuid = '8e03978e-40d5-43dd-bc93-6894a57f9324'
    const forms = [uuid, `"${uuid}"`, ` ${uuid}\t`, ` "${uuid}" `, `"${uuid}";v=1`, `"${uuid}";a; b="x;,\\"y";c=?1`]
    for (const form of forms) expect(parseKeyHeader(form)).toBe(uuid)
    expect(parseKeyHeader('"a";*x=:YQ==:;y=*tok/en:1;z=-1.5')).toBe('a')
  })

  test('every key survives the quoted form, and the bare one where it has no comma, space or quote', () => {
    fc.assert(
      fc.property(anyKey, fc.constantFrom('', ';v', ';v=1', '; v="\\\\"'), (key, parameters) => {
        expect(parseKeyHeader(serialize(key) + parameters)).toBe(key)
      }),
      { numRuns: 2_000 },
    )
    fc.assert(
      fc.property(
        anyKey.filter((key) => !/[", ]/.test(key)),
        (key) => {
          expect(parseKeyHeader(key)).toBe(key)
        },
      ),
      { numRuns: 2_000 },
    )
  })

  test('bare keys are taken whole: cutting at a semicolon would make one key of two', () => {
    expect(parseKeyHeader('order;1')).toBe('order;1')
    expect(parseKeyHeader('a\\b')).toBe('a\\b')
  })

  test('two keys in one header are refused as such', () => {
    for (const value of ['a, b', 'a,b', '"a", "b"', '"a","a"', '"a" , "b"', '"a";v=1, "b"']) {
      expect(() => parseKeyHeader(value)).toThrow(withCode('ONCE_KEY_TWICE'))
    }
  })

  test('malformed values are refused', () => {
    const torn = [
      '',
      ' ',
      '\t',
      '"',
      '""',
      '"a',
      '"a\\',
      '"a\\"',
      '"a\\b"',
      'a"',
      'a"b',
      'a b',
      '"a"b',
      '"a" b',
      '"a" ;v',
    ]
    const parameters = ['"a";', '"a";=1', '"a";V=1', '"a";v=', '"a";v="', '"a";v=1 2', '"a";;', '"a";v=a"b']
    const bytes = ['é', '"é"', '"a\0"', 'a\u007f', '"\n"', '" a"', `"${'x'.repeat(256)}"`, 'x'.repeat(256)]
    for (const value of [...torn, ...parameters, ...bytes]) {
      expect(() => parseKeyHeader(value)).toThrow(withCode('ONCE_KEY_INVALID'))
    }
  })

  test('100,000 random headers: a valid key or one of our refusals, never anything else', { timeout: 120_000 }, () => {
    const scraps = [...'"\\;,= \tabA1?:*\n\0\u007f'.split(''), 'é', '\ud800', '";', '="', '\\"', 'x'.repeat(100)]
    let state = 1
    const roll = (sides: number): number => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
      return Math.floor((state / 2 ** 32) * sides)
    }
    const wrong: string[] = []
    for (let run = 0; run < 100_000; run++) {
      const value = Array.from({ length: roll(12) }, () => scraps[roll(scraps.length)]).join('')
      if (!isTyped(value)) wrong.push(value)
    }
    expect(wrong).toEqual([])
  })

  test('1 MB of the worst stays linear', { timeout: 120_000 }, () => {
    const million = 1_000_000
    const worst = [
      'a'.repeat(million),
      '"'.repeat(million),
      `"${'\\"'.repeat(million / 2)}`,
      `"a"${';a'.repeat(million / 2)}`,
      `"a"${';a="\\""'.repeat(million / 8)}`,
      `"a";${' '.repeat(million)}`,
      `"a"${' '.repeat(million)},`,
      ' '.repeat(million),
      `a${' '.repeat(million)}b`,
    ]
    const start = cpuMs()
    for (const value of worst) {
      expect(isTyped(value)).toBe(true)
    }
    expect(cpuMs() - start).toBeLessThan(10_000)
  })
})
