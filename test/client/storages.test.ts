import { mkdir, mkdtemp, readdir, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Libsql from 'libsql'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { programBeside } from '../../scripts/program.ts'
import { startAlone } from '../../scripts/servers/index.ts'
import { run } from '../../scripts/servers/process.ts'
import { findNode, findRuntime, type Runtime } from '../../scripts/servers/runtimes.ts'
import { memoryStorage } from '../../src/entry/client.ts'
import { fileStorage, redisStorage, sqliteStorage } from '../../src/entry/client-node.ts'
import type { CallStorage } from '../../src/client/types.ts'
import { openRedis, REDIS_CLIENTS } from '../support/redis-clients.ts'
import type { StorageKind } from './support/open-storage.ts'
import { STORAGE_CONTRACT } from './support/storage-contract.ts'

const PROGRAM_MS = 60_000
const { file, execArgv: TSX } = programBeside(import.meta.url, 'support/storage-program')

let folder: string
const closing: (() => unknown)[] = []
const redis = await startAlone('redis')
if ('missing' in redis) console.warn(`redis is missing, its tests are skipped: ${redis.missing}`)

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'calls-'))
})
afterAll(async () => {
  for (const close of closing) await close()
  if ('stop' in redis) await redis.stop()
  await rm(folder, { recursive: true, force: true })
})

const KINDS: Record<string, () => Promise<CallStorage>> = {
  memory: async () => memoryStorage(),
  file: async () => fileStorage({ folder: join(folder, 'files') }),
  sqlite: async () => sqliteStorage(new Libsql(join(folder, 'calls.db'))),
}
for (const of of 'url' in redis ? REDIS_CLIENTS : []) {
  KINDS[of] = async () => {
    const { client, close } = await openRedis(of, 'redis', 'url' in redis ? redis.url : '')
    closing.push(close)
    return redisStorage(client, `calls:${of}`)
  }
}

describe.each(Object.entries(KINDS))('the storage %s', (_, open) => {
  it.each(Object.entries(STORAGE_CONTRACT))('%s', async (_name, holds) => {
    await expect(open().then(holds)).resolves.toBeUndefined()
  })
})

const RUNTIMES: readonly { name: string; kind: StorageKind; args: readonly string[]; runtime: Runtime }[] = [
  { name: 'node:sqlite on Node 22', kind: 'node:sqlite', args: TSX, runtime: await findNode(22) },
  { name: 'node:sqlite on Node 24', kind: 'node:sqlite', args: TSX, runtime: await findNode(24) },
  { name: 'bun:sqlite', kind: 'bun:sqlite', args: ['run'], runtime: await findRuntime('bun') },
  { name: 'libsql', kind: 'libsql', args: TSX, runtime: { executable: process.execPath } },
  { name: 'files', kind: 'file', args: TSX, runtime: { executable: process.execPath } },
]

describe.each(RUNTIMES)('the storage of $name', ({ name, kind, args, runtime }) => {
  const missing = 'missing' in runtime
  if (missing) console.warn(`${name} is missing, its tests are skipped: ${runtime.missing}`)
  const start = (...order: readonly string[]): Promise<string[]> =>
    lines(missing ? '' : runtime.executable, [...args, file, ...order])

  it.skipIf(missing)('fulfils the contract in a process of its runtime', async () => {
    expect(await start('contract', kind, join(folder, name))).toEqual(Object.keys(STORAGE_CONTRACT))
  })

  it.skipIf(missing)('lets one of four processes add, and one change each version', async () => {
    const path = join(folder, `race ${name}`)
    const won = (await Promise.all([0, 1, 2, 3].map((i) => start('race', kind, path, String(i))))).flat()
    expect(won.length).toBeGreaterThan(50)
    expect(new Set(won).size).toBe(won.length)
  })
})

async function lines(executable: string, args: readonly string[]): Promise<string[]> {
  return (await run(executable, args, { timeoutMs: PROGRAM_MS })).trim().split('\n')
}

it('fileStorage leaves foreign files alone, and a call whose file is empty hides no other', async () => {
  const place = join(folder, 'foreign')
  const storage = fileStorage({ folder: place })
  await storage.add('cut', 'first')
  await storage.swap('cut', 'first', 'second')
  const [cut = ''] = await readdir(place)
  await storage.add('whole', 'text')
  await writeFile(join(place, '.DS_Store'), 'x')
  await mkdir(join(place, 'lost+found'))
  await truncate(join(place, cut, '2'))
  expect((await storage.list()).toSorted()).toEqual(['', 'text'])
  expect([await storage.add('cut', 'third'), await storage.swap('cut', '', null)]).toEqual(['', true])
  expect(await storage.add('cut', 'third')).toBe('third')
})
