import { describe, expect, it } from 'vitest'
import { naturalWorks } from '../../test/support/natural-works.ts'
import { describeEmbedded } from '../../test/support/stores.ts'
import { insertOnce } from './insert-once.ts'
import { updateIf } from './update-if.ts'

describeEmbedded('the helpers without a key', (place) => naturalWorks(place), 'SQLite')

class Odd {
  toJSON(): never {
    throw new Error('no')
  }
}
const cyclic: unknown[] = []
cyclic.push(cyclic)

/** JSON would write another value than these, or none, or throw an error of its own. */
const ODD_VALUES: readonly (readonly [string, unknown])[] = [
  ['a number that is not finite', Number.NaN],
  ['a number that is not finite', Number.POSITIVE_INFINITY],
  ['a number that is not finite', { list: [1, -Infinity] }],
  ['an invalid date', new Date('never')],
  ['an invalid date', { on: new Date(Number.NaN) }],
  ['a function', () => 1],
  ['a function', { call: () => 1 }],
  ['a symbol', Symbol('a')],
  ['a symbol', [Symbol('a')]],
  ['a bigint inside another value', { list: [1n] }],
  ['bytes inside another value', { raw: Buffer.from('a') }],
  ['bytes inside another value', [new Uint8Array(1).buffer]],
  ['undefined', [1, undefined]],
  ['undefined', { toJSON: () => undefined }],
  ['a Map, which hides its content', new Map([[1, 2]])],
  ['a Set, which hides its content', { tags: new Set(['a']) }],
  ['a text that a database cannot store', 'a\0'],
  ['a text that a database cannot store', { text: '\ud800' }],
  ['not a value of JSON', cyclic],
  ['not a value of JSON', new Odd()],
]

describe.each(['postgres', 'sqlite'])('on %s', (dialect) => {
  it.each(ODD_VALUES)('refuses before the first statement: %s', async (message, value) => {
    let queries = 0
    const watched = { dialect, query: () => Promise.resolve({ rows: [], queries: queries++ }) }
    const calls = [
      () => insertOnce(watched, 't', { id: 1, a: value }, { unique: ['id'] }),
      () => insertOnce(watched, 't', { id: value }, { unique: ['id'] }),
      () => updateIf(watched, 't', { set: { a: value }, where, expect: { a: 1 } }),
      () => updateIf(watched, 't', { set: { a: 2 }, where: { id: value }, expect: { a: 1 } }),
      () => updateIf(watched, 't', { set: { a: 2 }, where, expect: { a: value } }),
    ]
    for (const call of calls) {
      const detail = expect.stringContaining(message) as string
      await expect(call()).rejects.toMatchObject({ code: 'ONCE_OPTION_INVALID', message: detail })
    }
    expect(queries).toBe(0)
  })
})

const tx = { query: () => Promise.resolve({ rows: [] }) }
const row = { id: 1, a: 2 }
const where = { id: 1 }

it.each([
  ['the tx of a SQL store', () => insertOnce({}, 't', row, { unique: ['id'] })],
  ['the tx of a SQL store', () => insertOnce(undefined, 't', row, { unique: ['id'] })],
  ['needs { unique', () => insertOnce(tx, 't', row, {} as never)],
  ['unique needs at least one column', () => insertOnce(tx, 't', row, { unique: [] })],
  ["the column 'b' of unique is undefined", () => insertOnce(tx, 't', row, { unique: ['b'] })],
  ["the column 'a' of the row is undefined", () => insertOnce(tx, 't', { a: undefined }, { unique: ['a'] })],
  ["the column 'id' of unique is null", () => insertOnce(tx, 't', { id: null }, { unique: ['id'] })],
  ["unknown option 'set'", () => insertOnce(tx, 't', row, { unique: ['id'], set: 1 } as never)],
  ['the table must be a name', () => insertOnce(tx, 7 as never, row, { unique: ['id'] })],
  ['is empty', () => insertOnce(tx, 'shop.', row, { unique: ['id'] })],
  ['where needs at least one column', () => updateIf(tx, 't', { set: row, where: {}, expect: { a: 1 } })],
  ['expect needs at least one column', () => updateIf(tx, 't', { set: row, where, expect: {} })],
  ['set must change a column of expect', () => updateIf(tx, 't', { set: { b: 1 }, where, expect: { a: 1 } })],
  ['set must change a column of expect', () => updateIf(tx, 't', { set: { a: 1n, b: 1 }, where, expect: { a: 1n } })],
  ['set must change a column of expect', () => updateIf(tx, 't', { set: { b: 1 }, where, expect: { toString: 1 } })],
  ['set must change a column of expect', () => updateIf(tx, 't', { set: { a: 1, b: 2 }, where, expect: { a: 1 } })],
  [
    'set must change a column of expect',
    () => updateIf(tx, 't', { set: { at: new Date(0), n: 1n }, where, expect: { at: new Date(0), n: 1n } }),
  ],
  ['needs { set', () => updateIf(tx, 't', undefined as never)],
])('refuses: %s', async (message, call) => {
  await expect(call()).rejects.toThrow(message)
})
