import { isDeepStrictEqual } from 'node:util'
import { createContext, runInContext } from 'node:vm'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { canonicalValue } from './canonical-value.ts'

const refused: unknown = expect.objectContaining({ name: 'OnceError', code: 'ONCE_INPUT_INVALID' })

/** -0 and 0 are the same JSON; a property named __proto__ has to stay one. */
const anyJson = fc.jsonValue({ noUnicodeString: false, maxDepth: 5 })

function parse(text: string): unknown {
  return JSON.parse(text)
}

/** The same document with the members of every object in another order. */
function reversed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reversed)
  if (typeof value !== 'object' || value === null) return value
  const copy = Object.create(null) as Record<string, unknown>
  for (const [name, member] of Object.entries(value).toReversed()) copy[name] = reversed(member)
  return copy
}

describe('canonicalValue', () => {
  test('RFC 8785, section 3.2.2 and 3.2.3', () => {
    const sample = {
      numbers: [333333333.3333333, 1e30, 4.5, 2e-3, 0.000000000000000000000000001],
      string: '\u20ac$\u000F\u000aA\'\u0042\u0022\u005c\\"/',
      literals: [null, true, false],
    }
    expect(canonicalValue(sample)).toBe(
      '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}',
    )
    const names = ['\u20ac', '\r', '\ufb33', '1', '😀', '\u0080', 'ö']
    const text = canonicalValue(Object.fromEntries(names.map((name) => [name, 1])))
    expect(Object.keys(parse(text) as object)).toEqual(['1', '\r', '\u0080', 'ö', '€', '😀', '\ufb33'])
  })

  test('two documents have the same text if and only if they are the same JSON', () => {
    fc.assert(
      fc.property(anyJson, anyJson, (a, b) => {
        const same = isDeepStrictEqual(parse(JSON.stringify(a)), parse(JSON.stringify(b)))
        expect(canonicalValue(a) === canonicalValue(b)).toBe(same)
      }),
      { numRuns: 3_000 },
    )
  })

  test('the text is JSON of the same value, whatever the order of its members', () => {
    fc.assert(
      fc.property(anyJson, (value) => {
        const text = canonicalValue(value)
        expect(parse(text)).toEqual(parse(JSON.stringify(value)))
        expect(canonicalValue(reversed(value))).toBe(text)
        expect(canonicalValue(parse(text))).toBe(text)
      }),
      { numRuns: 3_000 },
    )
  })

  test('as JSON.stringify where JSON carries the value', () => {
    class Money {
      constructor(amount: number) {
        this.amount = amount
      }
      readonly amount: number
      get secret(): string {
        return 'a getter of the class is not a member'
      }
    }
    const holes: unknown[] = []
    holes.length = 2
    const same: unknown[] = [
      { a: undefined, b: [undefined, 1], holes, c: null },
      { at: new Date(0), inner: { toJSON: (key: string) => `asked as ${key}` } },
      [new Number(1), new String('a'), new Boolean(false), Object(-0)],
      { money: new Money(5), bare: Object.create(null) as unknown, text: '\u2028\u007f"\\\ud800' },
      Buffer.from('ab'),
      'x'.repeat(100),
      -0,
      null,
    ]
    for (const value of same) {
      expect(canonicalValue(value)).toBe(canonicalValue(parse(JSON.stringify(value))))
    }
    expect(canonicalValue({ b: 1, a: undefined })).toBe('{"b":1}')
    expect(canonicalValue({ toJSON: () => ({ toJSON: 1, a: 2 }) })).toBe('{"a":2,"toJSON":1}')
    expect(canonicalValue({ gone: { toJSON: () => undefined }, list: [{ toJSON: () => undefined }] })).toBe(
      '{"list":[null]}',
    )
  })

  test('short text with something to escape, and objects too wide for the short sort', () => {
    for (const text of ['a\\b', '\\', '"', '\n', '\u007f', 'é', 'a"b'])
      expect(canonicalValue(text)).toBe(JSON.stringify(text))
    for (const width of [15, 16, 17, 18, 100]) {
      const names = Array.from({ length: width }, (_, i) => `k${(i * 7) % width}-${i}`)
      const wide = Object.fromEntries(names.map((name) => [name, 0]))
      expect(Object.keys(parse(canonicalValue(wide)) as object)).toEqual(names.toSorted())
    }
  })

  test('no input at all differs from null and from the empty text', () => {
    const texts = [undefined, null, '', {}, []].map((value) => canonicalValue(value))
    expect(new Set(texts).size).toBe(texts.length)
  })

  test('__proto__ is a member, not a prototype', () => {
    const plain = parse('{"__proto__":{"admin":true},"a":1}')
    expect(canonicalValue(plain)).toBe('{"__proto__":{"admin":true},"a":1}')
    expect(canonicalValue(plain)).not.toBe(canonicalValue({ a: 1 }))
    expect(canonicalValue(plain, ['/__proto__'])).toBe('{"a":1}')
  })

  test('what JSON would lose in silence is refused', () => {
    const lost: unknown[] = [
      () => 1,
      Symbol('s'),
      1n,
      Object(1n),
      Number.NaN,
      -Infinity,
      new Date(Number.NaN),
      new Map([['a', 1]]),
      new Set([1]),
      new WeakMap(),
      /a/,
      new Error('lost'),
      Promise.resolve(1),
      new ArrayBuffer(1),
      new Uint8Array(1),
      new DataView(new ArrayBuffer(1)),
      runInContext('new Map([[1, 2]])', createContext()),
      { toJSON: () => 1n },
    ]
    for (const value of lost) {
      expect(() => canonicalValue(value)).toThrow(refused)
      expect(() => canonicalValue({ deep: [value] })).toThrow(refused)
    }
  })

  test('BigInt follows toJSON where a program taught it', () => {
    const taught = Object.assign(Object(1n), { toJSON: () => '1' }) as unknown
    expect(canonicalValue({ taught })).toBe('{"taught":"1"}')
  })

  test('a cycle, a value too deep and a getter that throws are refused; a shared value is not a cycle', () => {
    const cycle: Record<string, unknown> = { a: {} }
    cycle['a'] = { b: [cycle, cycle] }
    expect(() => canonicalValue(cycle)).toThrow(refused)
    const nest = (levels: number): unknown => parse('['.repeat(levels) + ']'.repeat(levels))
    expect(canonicalValue(nest(200))).toHaveLength(400)
    expect(() => canonicalValue(nest(201))).toThrow(refused)
    const bottomless = { toJSON: (): unknown => ({ again: bottomless }) }
    expect(() => canonicalValue(bottomless)).toThrow(refused)
    const thrower = {
      get a(): never {
        throw new TypeError('no')
      },
    }
    expect(() => canonicalValue(thrower)).toThrow(expect.objectContaining({ cause: expect.any(TypeError) as unknown }))
    const shared = { x: 1 }
    expect(canonicalValue([shared, shared])).toBe('[{"x":1},{"x":1}]')
  })

  test('ignored members are left out; ignored elements leave their place', () => {
    const order = {
      id: 1,
      sent: 'now',
      lines: [
        { sku: 'a', seen: 1 },
        { sku: 'b', seen: 2 },
      ],
      'a/b': 1,
      'm~n': 2,
    }
    expect(canonicalValue(order, ['/sent', '/lines/0/seen', '/a~1b', '/m~0n', '/none/at/all'])).toBe(
      '{"id":1,"lines":[{"sku":"a"},{"seen":2,"sku":"b"}]}',
    )
    expect(canonicalValue([1, 2, 3], ['/1'])).toBe('[1,_,3]')
    expect(canonicalValue([1], ['/1', '/-', '/01', '/1e0'])).toBe('[1]')
    expect(canonicalValue({ a: { b: 1 } }, ['/a', '/a/b'])).toBe(canonicalValue({ a: { b: 1 } }, ['/a/b', '/a']))
  })

  test('values no JSON document holds: our refusal or a text, never anything else', () => {
    const anything = fc.anything({
      withBigInt: true,
      withBoxedValues: true,
      withDate: true,
      withMap: true,
      withSet: true,
      withNullPrototype: true,
      withObjectString: true,
      withSparseArray: true,
      withTypedArray: true,
    })
    fc.assert(
      fc.property(anything, (value) => {
        let text: string | undefined
        try {
          text = canonicalValue(value)
        } catch (error) {
          expect(error).toEqual(refused)
          return
        }
        expect(text === '' ? undefined : text).toBe(
          text === '' ? JSON.stringify(value) : canonicalValue(parse(JSON.stringify(value))),
        )
      }),
      { numRuns: 5_000 },
    )
  })
})
