import { beforeAll, describe, expect, test } from 'vitest'
import { isOnceError, type OnceCode } from '../errors.ts'
import { checkKey, checkNamespace, checkScope } from './parse-key.ts'

function withCode(code: OnceCode): unknown {
  return expect.objectContaining({ name: 'OnceError', code })
}

function isDiscreet(key: string): boolean {
  try {
    return checkKey(key) === key
  } catch (error) {
    return isOnceError(error, 'ONCE_KEY_INVALID') && !error.message.includes(key)
  }
}

/** Most of the cost of a refusal is its stack, which nobody reads here. */
beforeAll(() => {
  Error.stackTraceLimit = 0
})

describe('checkKey', () => {
  test('printable ASCII, 1 to 255 bytes, no space at either end', () => {
    for (const key of ['a', 'invoice:42', 'a b', '"', '~!', 'x'.repeat(255)]) expect(checkKey(key)).toBe(key)
    const refused = ['', ' ', ' a', 'a ', 'a\n', '\ta', 'a\0b', 'é', '\u007f', '🏦', '\ud800', 'x'.repeat(256)]
    for (const key of refused) expect(() => checkKey(key)).toThrow(withCode('ONCE_KEY_INVALID'))
    for (const key of [undefined, null, 42, 1n, {}, ['a'], Symbol('k'), () => 'k']) {
      expect(() => checkKey(key)).toThrow(withCode('ONCE_KEY_INVALID'))
    }
  })

  test('what comes back is what went in, and what is refused is not repeated', { timeout: 120_000 }, () => {
    let state = 1
    const wrong: string[] = []
    for (let run = 0; run < 100_000; run++) {
      const units = Array.from({ length: 4 + (run % 8) }, () => {
        state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
        return state >>> (run % 2 === 0 ? 25 : 16)
      })
      const key = String.fromCharCode(...units)
      if (!isDiscreet(key)) wrong.push(key)
    }
    expect(wrong).toEqual([])
  })
})

describe('checkScope', () => {
  test("any text, 'global' too, but never nothing", () => {
    for (const scope of ['global', 'user:1', 'zürich', '\0', '0', 'x'.repeat(1024)])
      expect(checkScope(scope)).toBe(scope)
    for (const scope of ['', undefined, null, 0, 42, Number.NaN, {}, [], true, Symbol('s')]) {
      expect(() => checkScope(scope)).toThrow(withCode('ONCE_SCOPE_EMPTY'))
    }
  })

  test('a template around nothing is nothing', () => {
    const user: { id?: string } = {}
    expect(() => checkScope(`${user.id}`)).toThrow(withCode('ONCE_SCOPE_EMPTY'))
    expect(() => checkScope(String(null))).toThrow(withCode('ONCE_SCOPE_EMPTY'))
    expect(() => checkScope(String({}))).toThrow(withCode('ONCE_SCOPE_EMPTY'))
  })

  test('the limit counts bytes, not characters', () => {
    expect(checkScope('é'.repeat(512))).toHaveLength(512)
    expect(() => checkScope('é'.repeat(513))).toThrow(withCode('ONCE_OPTION_INVALID'))
    expect(() => checkScope('x'.repeat(1025))).toThrow(withCode('ONCE_OPTION_INVALID'))
  })
})

test('a namespace is text that is not empty and not long', () => {
  expect(checkNamespace('payments')).toBe('payments')
  for (const namespace of ['', undefined, 7, 'x'.repeat(256), 'é'.repeat(128)]) {
    expect(() => checkNamespace(namespace)).toThrow(withCode('ONCE_OPTION_INVALID'))
  }
})
