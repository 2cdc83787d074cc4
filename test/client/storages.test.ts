import { spawn } from 'node:child_process'
import { mkdir, mkdtemp, readdir, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Libsql from 'libsql'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { programBeside } from '../../scripts/program.ts'
import { startAlone } from '../../scripts/servers/index.ts'
import { memoryStorage } from '../../src/entry/client.ts'
import { fileStorage, redisStorage, sqliteStorage } from '../../src/entry/client-node.ts'
import type { CallStorage } from '../../src/client/types.ts'
import { openRedis, REDIS_CLIENTS } from '../support/redis-clients.ts'

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
  it('adds a name once, and changes only what it saw', async () => {
    const storage = await open()
    expect(await storage.list()).toEqual([])
    expect(await storage.add('pay ü/7', 'a')).toBe('a')
    expect(await storage.add('pay ü/7', 'b')).toBe('a')
    expect([await storage.swap('pay ü/7', 'b', 'c'), await storage.swap('pay ü/7', 'a', 'c')]).toEqual([false, true])
    expect(await storage.add('other', 'o')).toBe('o')
    expect((await storage.list()).toSorted()).toEqual(['c', 'o'])
    expect([await storage.swap('pay ü/7', 'a', null), await storage.swap('pay ü/7', 'c', null)]).toEqual([false, true])
    expect([await storage.swap('pay ü/7', 'c', 'd'), await storage.list()]).toEqual([false, ['o']])
    expect(await storage.add('pay ü/7', 'e')).toBe('e')
    for (const [name, text] of [
      ['pay ü/7', 'e'],
      ['other', 'o'],
    ] as const)
      await storage.swap(name, text, null)
  })

  it('lets one of many win', async () => {
    const storage = await open()
    const added = await Promise.all(Array.from({ length: 20 }, (_, i) => storage.add('race', `text ${i}`)))
    expect(new Set(added).size).toBe(1)
    const [text = ''] = added
    const swapped = await Promise.all(Array.from({ length: 20 }, (_, i) => storage.swap('race', text, `next ${i}`)))
    expect(swapped.filter(Boolean)).toHaveLength(1)
    expect(await storage.list()).toHaveLength(1)
    await storage.swap('race', (await storage.list())[0] ?? '', null)
  })
})

/** Each process adds and frees the same names, and prints what it won. */
async function race(kind: string, path: string, processes: number): Promise<string[]> {
  const { file, execArgv } = programBeside(import.meta.url, 'support/racer')
  const outputs = await Promise.all(
    Array.from({ length: processes }, async (_, i) => {
      const child = spawn(process.execPath, [...execArgv, file, kind, path, String(i)], {
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      let text = ''
      for await (const part of child.stdout) text += String(part)
      return text.trim().split('\n')
    }),
  )
  return outputs.flat()
}

it.each(['file', 'sqlite'])('%s: of four processes one adds, and one changes each version', async (kind) => {
  const won = await race(kind, join(folder, `race-${kind}`), 4)
  expect(won.length).toBeGreaterThan(50)
  expect(new Set(won).size).toBe(won.length)
})

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
