import { expect, it } from 'vitest'
import { HeaderReader } from './outgoing.ts'

it('parses the same headers once, and other headers anew', () => {
  const reader = new HeaderReader()
  const first = reader.read('{"source":"shop"}')
  expect(first).toEqual({ source: 'shop' })
  expect(reader.read('{"source":"shop"}')).toBe(first)
  expect(reader.read('{"source":"mail"}')).toEqual({ source: 'mail' })
  expect(reader.read(null)).toEqual({})
})
