import { describe, expect, test } from 'vitest'
import { isJson, parseMediaType } from './media-type.ts'

/** CPU time, not the wall clock: other processes must not fail this test. Quadratic time would be minutes. */
function cpuMs(): number {
  return process.cpuUsage().user / 1_000
}

describe('parseMediaType', () => {
  test('essence in lower case, boundary and charset with and without quotes', () => {
    expect(parseMediaType('Application/JSON; Charset=UTF-8')).toEqual({
      essence: 'application/json',
      boundary: undefined,
      charset: 'utf-8',
    })
    expect(parseMediaType('multipart/form-data; x="a;boundary=no"; boundary="a\\"b;c"').boundary).toBe('a"b;c')
    expect(parseMediaType('multipart/form-data;boundary=one;boundary=two').boundary).toBe('one')
    expect(parseMediaType('multipart/form-data ; BOUNDARY = "x" junk ; charset').boundary).toBe(' "x" junk'.trim())
  })

  test('nothing is refused', () => {
    for (const value of [undefined, '', ';', ';;=;', 'a;b="', 'a;b="\\', 'a;=', '"', 'x'.repeat(100)]) {
      expect(parseMediaType(value).essence).toBeTypeOf('string')
    }
    expect(parseMediaType(undefined)).toEqual({ essence: '', boundary: undefined, charset: undefined })
  })

  test('1 MB of the worst stays linear', { timeout: 120_000 }, () => {
    const start = cpuMs()
    for (const scrap of [';', '"', '\\', '=', ';a=', ';boundary="', ' ']) {
      expect(parseMediaType(`a/b;c="${scrap.repeat(1_000_000 / scrap.length)}`).essence).toBe('a/b')
      expect(parseMediaType(`a/b;${scrap.repeat(1_000_000 / scrap.length)}`).essence).toBe('a/b')
    }
    expect(cpuMs() - start).toBeLessThan(10_000)
  })
})

test('isJson: by name, and only in encodings JSON may have', () => {
  const json = (value: string): boolean => isJson(parseMediaType(value))
  for (const value of [
    'application/json',
    'text/json',
    'application/vnd.api+json',
    'application/json; charset="utf-8"',
  ]) {
    expect(json(value)).toBe(true)
  }
  for (const value of ['', 'text/plain', 'application/jsonl', 'application/json; charset=utf-16', 'json']) {
    expect(json(value)).toBe(false)
  }
})
