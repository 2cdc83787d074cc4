import { expect, it } from 'vitest'
import { versionFinding } from './doctor.ts'

it.each([
  [0, 'ONCE_NOT_MIGRATED'],
  [7, 'ONCE_NOT_MIGRATED'],
  [9, 'ONCE_SCHEMA_NEWER'],
])('a database at version %i, with code for version 8, is %s', (version, code) => {
  expect(versionFinding(version, 8, 'here')).toMatchObject({ level: 'problem', code })
})
