import { describe, expect, test } from 'vitest'
import { invalid, oneOf, optionalFunction, refuseUnknown, wholeNumber } from './options.ts'

describe('options', () => {
  test('an error has the code, the detail and the cause', () => {
    const cause = new Error('gone')
    expect(invalid('no topic', cause)).toMatchObject({ code: 'ONCE_OPTION_INVALID', cause })
    expect(invalid('no topic').message).toBe('ONCE_OPTION_INVALID no topic')
  })

  test('an unknown option is refused, with at most 40 characters of its name', () => {
    const known = new Set(['batch'])
    for (const options of [undefined, {}, { batch: undefined }]) refuseUnknown(options, known, 'it()')
    expect(() => refuseUnknown({ batch: 1, size: 2 }, known, 'it()')).toThrow("unknown option 'size' of it()")
    expect(() => refuseUnknown({ ['a'.repeat(50)]: 1 }, known, 'it()')).toThrow(
      `unknown option '${'a'.repeat(40)}' of it()`,
    )
  })

  test('a whole number has both limits', () => {
    expect([1, 5].map((value) => wholeNumber('batch', value, 5))).toEqual([1, 5])
    expect(wholeNumber('after', 0, 5, 0)).toBe(0)
    for (const value of [0, 6, 1.5, '1', null, undefined, Number.NaN]) {
      expect(() => wholeNumber('batch', value, 5)).toThrow('batch must be a whole number from 1 to 5')
    }
  })

  test('one of some values, or the default', () => {
    expect(oneOf('listen', undefined, [true, false], true)).toBe(true)
    expect(oneOf('listen', false, [true, false], true)).toBe(false)
    expect(() => oneOf<unknown>('listen', null, [true, false], true)).toThrow('listen must be one of true, false')
  })

  test('a function, or none', () => {
    expect(optionalFunction('key', undefined)).toBe(undefined)
    expect(optionalFunction('key', invalid)).toBe(invalid)
    expect(() => optionalFunction<unknown>('key', null)).toThrow('key must be a function')
  })
})
