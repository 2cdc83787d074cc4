import { expect, it } from 'vitest'
import { onceError } from '../errors.ts'
import { commitFailure } from './protected-route.ts'

const coded = (code: unknown): Error => Object.assign(new Error('no'), { code })

it.each(['23505', 'P0001', '40001', 'P2002', 'SQLITE_CONSTRAINT', 'SQLITE_CONSTRAINT_FOREIGNKEY'])(
  'a commit that the database refuses with %s was rolled back',
  (code) => {
    const error = coded(code)
    expect(commitFailure(error)).toMatchObject({ code: 'ONCE_ROLLED_BACK', cause: error })
  },
)

it.each(['EPIPE', 'ECONNRESET', 'SQLITE_FULL', 7, undefined])('after %s the store is in trouble', (code) => {
  expect(commitFailure(coded(code)).code).toBe('ONCE_STORE_UNAVAILABLE')
})

it('what is no error of the database stays as it is, or is trouble', () => {
  const known = onceError('ONCE_DEADLINE')
  expect(commitFailure(known)).toBe(known)
  expect([commitFailure(undefined).code, commitFailure(null).code]).toEqual([
    'ONCE_STORE_UNAVAILABLE',
    'ONCE_STORE_UNAVAILABLE',
  ])
})
