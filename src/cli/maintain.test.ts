import { expect, it } from 'vitest'
import { readArguments } from './arguments.ts'
import { migrate } from './maintain.ts'

it('migrate --sql needs no database', async () => {
  const told = { progress: () => {}, out: async () => {}, signal: new AbortController().signal }
  expect((await migrate(readArguments(['migrate', '--sql'], {}), told)).text).toContain('create table')
})
