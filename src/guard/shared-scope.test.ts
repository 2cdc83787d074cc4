import { expect, it } from 'vitest'
import { CALLERS_MAX, SharedScope } from './shared-scope.ts'

it('one key from two callers is told; one caller, or two keys, is not', () => {
  const scope = new SharedScope()
  expect(scope.seen('POST /o', 'a', 'Bearer one')).toBeNull()
  expect(scope.seen('POST /o', 'a', 'Bearer one')).toBeNull()
  expect(scope.seen('POST /o', 'b', 'Bearer two')).toBeNull()
  // No line of the program is to blame.
  const found = { code: 'ONCE_SCOPE_SHARED', route: 'POST /o', place: '' }
  expect(scope.seen('POST /o', 'a', 'Bearer two')).toMatchObject(found)
})

it('remembers no more than so many', () => {
  const scope = new SharedScope()
  for (let i = 0; i < CALLERS_MAX + 10; i++) scope.seen('POST /o', String(i), 'x')
  expect(scope.size).toBe(CALLERS_MAX)
})
