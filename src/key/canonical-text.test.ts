import fc from 'fast-check'
import { beforeAll, describe, expect, test } from 'vitest'
import { isOnceError } from '../errors.ts'
import { canonicalText } from './canonical-text.ts'
import { canonicalValue } from './canonical-value.ts'

const refused: unknown = expect.objectContaining({ name: 'OnceError', code: 'ONCE_BODY_INVALID' })

function canon(text: string, ignore?: readonly string[]): string {
  return canonicalText(new TextEncoder().encode(text), ignore)
}

/** Cheap, and the same on every run: these tests look for crashes, and a crash needs no shrinking. */
function dice(seed: number): (sides: number) => number {
  let state = seed
  return (sides) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * sides)
  }
}

function outcomeOf(run: () => unknown): 'accepted' | 'refused' | 'untyped' {
  try {
    run()
    return 'accepted'
  } catch (error) {
    if (isOnceError(error) && error.message.includes('twice')) return 'accepted'
    return error instanceof SyntaxError || isOnceError(error, 'ONCE_BODY_INVALID') ? 'refused' : 'untyped'
  }
}

const anyJson = fc.jsonValue({ noUnicodeString: false, maxDepth: 5 })

/** A document as another client might write it: white space, escapes, members in any order. */
function restyle(value: unknown, dice: readonly number[]): string {
  let rolled = 0
  const roll = (sides: number): number => (dice[rolled++ % dice.length] ?? 0) % sides
  const space = (): string => ['', ' ', '\n', '\t\r'][roll(4)] ?? ''
  const text = (raw: string): string => {
    if (roll(2) === 0) return JSON.stringify(raw)
    const units = Array.from({ length: raw.length }, (_, i) => raw.charCodeAt(i).toString(16).padStart(4, '0'))
    return `"${units.map((unit) => `\\u${unit}`).join('')}"`
  }
  const write = (node: unknown): string => {
    if (typeof node === 'string') return text(node)
    if (typeof node !== 'object' || node === null) return JSON.stringify(node)
    if (Array.isArray(node)) return `[${space()}${node.map((each) => write(each) + space()).join(`,${space()}`)}]`
    const members = Object.entries(node).map(([name, each]) => `${text(name)}${space()}:${space()}${write(each)}`)
    if (roll(2) === 0) members.reverse()
    return `{${space()}${members.join(`${space()},${space()}`)}${space()}}`
  }
  return space() + write(value) + space()
}

/** CPU time, not the wall clock: other processes must not fail this test. Quadratic time would be minutes. */
function cpuMs(): number {
  return process.cpuUsage().user / 1_000
}

/** Most of the cost of a refusal is its stack, which nobody reads here. */
beforeAll(() => {
  Error.stackTraceLimit = 0
})

describe('canonicalText', () => {
  test('agrees with canonicalValue(JSON.parse()) on every document, however it is written', () => {
    fc.assert(
      fc.property(anyJson, fc.array(fc.nat(), { minLength: 1, maxLength: 50 }), (value, dice) => {
        const text = restyle(value, dice)
        expect(canon(text)).toBe(canonicalValue(JSON.parse(text)))
        expect(canon(JSON.stringify(value))).toBe(canonicalValue(value))
      }),
      { numRuns: 2_000 },
    )
  })

  test(
    '100,000 scraps of JSON: accepts exactly what JSON.parse accepts, apart from members named twice',
    { timeout: 120_000 },
    () => {
      const scraps = [...'{}[]:,"\\e+-.019 \n\0'.split(''), 'true', 'null', '"a"', '"b":', '\\u0061', '[1', '{"c":2']
      const roll = dice(1)
      const wrong: string[] = []
      for (let run = 0; run < 100_000; run++) {
        const text = Array.from({ length: 1 + roll(8) }, () => scraps[roll(scraps.length)]).join('')
        if (outcomeOf(() => JSON.parse(text)) !== outcomeOf(() => canon(text))) wrong.push(text)
      }
      expect(wrong).toEqual([])
    },
  )

  test('100,000 damaged bodies: a text or ONCE_BODY_INVALID, never anything else', { timeout: 120_000 }, () => {
    const whole = new TextEncoder().encode('{"a":[1.5e-7,"\\u00e9\\n",{"b":null}],"zürich":-0,"__proto__":true}')
    const roll = dice(2)
    const wrong: Uint8Array[] = []
    for (let run = 0; run < 100_000; run++) {
      const body = whole.slice(roll(whole.length / 2), whole.length - roll(4))
      for (let damage = roll(4); damage > 0; damage--) body[roll(body.length)] = roll(256)
      if (outcomeOf(() => canonicalText(body)) === 'untyped') wrong.push(body)
    }
    expect(wrong).toEqual([])
  })

  test('a member named twice is refused, in any spelling and at any depth', () => {
    for (const text of ['{"a":1,"a":2}', '{"a":1,"b":0,"a":1}', '{"a":1,"\\u0061":1}', '[{"x":{"":1,"":1}}]']) {
      expect(() => canon(text)).toThrow(refused)
    }
    expect(() => canon('{"__proto__":1,"__proto__":2}')).toThrow(refused)
    expect(() => canon('{"a":1,"a":2}', ['/a'])).toThrow(refused)
    expect(canon('{"a":{"a":1}}')).toBe('{"a":{"a":1}}')
  })

  test('numbers are compared by their decimal value, not by their double', () => {
    const equal = [
      ['1', '1.0', '1e0', '10e-1', '1.000E+0', '0.1e1'],
      ['0', '-0', '0.0', '0e5', '-0.0e-9', '0e99999999999999999999'],
      ['100', '1e2', '1E+2', '100.00'],
      ['9007199254740993', '9007199254740993.0'],
      ['-1.5', '-15e-1', '-1.50'],
      ['1e400', '10e399', '0.1e401'],
    ]
    const spelled = equal.map((texts) => new Set(texts.map((text) => canon(text))))
    for (const texts of spelled) expect(texts.size).toBe(1)
    expect(new Set(spelled.flatMap((texts) => [...texts])).size).toBe(equal.length)
    expect(canon('9007199254740993')).not.toBe(canon('9007199254740992'))
    expect(canon('0.1')).not.toBe(canon('0.1000000000000000055511151231257827'))
    expect(canon('1e400')).not.toBe(canon('1e401'))
    expect(canon('1e99999999999999999999')).not.toBe(canon('1e99999999999999999998'))
    expect(canon('1')).not.toBe(canon('-1'))
  })

  test('lone surrogates in escapes stay apart from each other and from the replacement character', () => {
    const texts = ['"\\ud800"', '"\\udfff"', '"\ufffd"', '"\\ud83c\\udfe6"'].map((text) => canon(text))
    expect(new Set(texts).size).toBe(4)
    expect(canon('"\\ud83c\\udfe6"')).toBe(canon('"🏦"'))
  })

  test('invalid UTF-8 is refused, a byte order mark is not', () => {
    expect(() => canonicalText(Uint8Array.of(0x22, 0xff, 0x22))).toThrow(refused)
    expect(() => canonicalText(Uint8Array.of(0x22, 0xed, 0xa0, 0x80, 0x22))).toThrow(refused)
    expect(canonicalText(Uint8Array.of(0xef, 0xbb, 0xbf, 0x31))).toBe('1')
  })

  test('pointers leave out the same as on a parsed value', () => {
    const pointers = ['/a', '/b/0', '/b/1/c', '/__proto__', '/d~1e', '/', '/x/y']
    const member = fc.constantFrom('a', 'b', 'c', '__proto__', 'd/e', '', 'x', 'y')
    const { tree } = fc.letrec((tie) => ({
      tree: fc.oneof(
        { maxDepth: 4 },
        fc.nat(9),
        fc.array(tie('tree'), { maxLength: 3 }),
        fc.dictionary(member, tie('tree')),
      ),
    }))
    fc.assert(
      fc.property(tree, (value) => {
        expect(canon(JSON.stringify(value), pointers)).toBe(canonicalValue(value, pointers))
      }),
      { numRuns: 2_000 },
    )
  })

  test('deep documents are refused, not recursed into', () => {
    expect(canon('['.repeat(200) + ']'.repeat(200))).toHaveLength(400)
    expect(() => canon('['.repeat(201) + ']'.repeat(201))).toThrow(refused)
    expect(() => canon('{"a":'.repeat(1_000_000))).toThrow(refused)
  })

  test('1 MB of the worst stays linear', { timeout: 120_000 }, () => {
    const million = 1_000_000
    const names = Array.from({ length: 80_000 }, (_, i) => `"k${(i * 7919) % 80_000}":1`)
    const indexes = Array.from({ length: 80_000 }, (_, i) => `"${((i * 7919) % 80_000) * 2 ** 22}":1`)
    const prefix = 'p'.repeat(1_000)
    const worst = [
      `"${'a'.repeat(million)}"`,
      `"${'\\u0061'.repeat(million / 6)}"`,
      `"${'\\'.repeat(million)}`,
      `[${'0,'.repeat(million / 2)}0]`,
      `[${'[],'.repeat(million / 3)}[]]`,
      `{${names.join(',')}}`,
      `{${indexes.join(',')}}`,
      `{${Array.from({ length: 1_000 }, (_, i) => `"${prefix}${999 - i}":1`).join(',')}}`,
      '['.repeat(100) + `"${'a'.repeat(million)}"` + ']'.repeat(100),
      '9'.repeat(million),
      `0.${'0'.repeat(million)}1`,
      `1e${'9'.repeat(million)}`,
      `1e${'0'.repeat(million)}1`,
      ' '.repeat(million),
      `${' '.repeat(million)}1${' '.repeat(million)}x`,
    ].map((text) => new TextEncoder().encode(text))
    for (const body of worst) {
      const start = cpuMs()
      expect(outcomeOf(() => canonicalText(body))).not.toBe('untyped')
      expect(cpuMs() - start).toBeLessThan(10_000)
    }
  })
})
