import { runInNewContext } from 'node:vm'
import { expect, it } from 'vitest'
import { isTableMissing, storeFailure } from './failure.ts'

it('knows an error of SQLite that another realm made, as in Jest', () => {
  const text = 'no such table: effectively_once_version'
  const error: unknown = runInNewContext(`new Error(${JSON.stringify(text)})`)
  expect(error).not.toBeInstanceOf(Error)
  expect(isTableMissing(error)).toBe(true)
  expect(storeFailure(error, 'shop.db')).toMatchObject({ code: 'ONCE_NOT_MIGRATED' })
})

it.each([undefined, null, 'no such table', new Error('no such table: orders')])(
  'does not mistake %s for it',
  (error) => {
    expect(isTableMissing(error)).toBe(false)
  },
)
