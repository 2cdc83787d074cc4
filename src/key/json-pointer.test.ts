import { describe, expect, test } from 'vitest'
import { compilePointers, parsePointer } from './json-pointer.ts'

const refused: unknown = expect.objectContaining({ name: 'OnceError', code: 'ONCE_OPTION_INVALID' })

describe('parsePointer', () => {
  test('the examples of RFC 6901', () => {
    const examples: Record<string, readonly string[]> = {
      '/foo': ['foo'],
      '/foo/0': ['foo', '0'],
      '/': [''],
      '/a~1b': ['a/b'],
      '/c%d': ['c%d'],
      '/i\\j': ['i\\j'],
      '/k"l': ['k"l'],
      '/ ': [' '],
      '/m~0n': ['m~n'],
      '/~01': ['~1'],
      '//': ['', ''],
    }
    for (const [pointer, tokens] of Object.entries(examples)) expect(parsePointer(pointer)).toEqual(tokens)
  })

  test('refuses the whole document, a missing slash and unknown escapes', () => {
    for (const pointer of ['', 'foo', '#/foo', '/a~', '/a~2', '/~~0']) {
      expect(() => parsePointer(pointer)).toThrow(refused)
    }
    expect(() => parsePointer(7 as unknown as string)).toThrow(refused)
  })
})

describe('compilePointers', () => {
  test('one tree; a pointer below an ignored value adds nothing, in either order', () => {
    const tree = new Map<string, unknown>([
      ['a', 'omitted'],
      ['b', new Map([['c', 'omitted']])],
    ])
    expect(compilePointers(['/a', '/a/x', '/b/c'])).toEqual(tree)
    expect(compilePointers(['/b/c', '/a/x', '/a'])).toEqual(tree)
  })

  test('nothing to ignore is no tree, and the same list is compiled once', () => {
    expect(compilePointers([])).toBeUndefined()
    expect(compilePointers(undefined)).toBeUndefined()
    const pointers = ['/a']
    expect(compilePointers(pointers)).toBe(compilePointers(pointers))
  })
})
