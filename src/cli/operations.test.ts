import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { effectivelyOnce } from '../index.ts'
import { sqliteStore } from '../store/sqlite/sqlite.ts'
import { readArguments } from './arguments.ts'
import { list } from './operations.ts'

it('operations are listed under the names of their columns', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'once-cli-'))
  const file = join(folder, 'shop.db')
  const once = effectivelyOnce({ namespace: 'shop', store: sqliteStore({ file }), guard: 'off', sweep: false })
  await once.migrate()
  const down = (): Promise<never> => Promise.reject(new Error('down'))
  await once.run({ scope: 'ann', key: 'p', input: 1, lease: '5s' }, async (op) => op.step('pay', down)).catch(() => {})
  await once.close()
  const told = { progress: () => {}, out: async () => {}, signal: new AbortController().signal }
  const { text } = await list(readArguments(['operations', 'list', '--url', file], {}), told)
  const [head, ...rows] = text.split('\n')
  expect(head?.split(/ +/)).toEqual(
    ['id', 'state', 'route', 'label', 'started', 'abandoned', 'attempts', 'recoverable'], // prettier-ignore
  )
  expect(rows).toHaveLength(1)
  await rm(folder, { recursive: true, force: true })
})
