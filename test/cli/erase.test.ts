import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { describe, expect, it } from 'vitest'
import { pgStore } from '../../src/entry/pg.ts'
import { sqliteStore } from '../../src/entry/sqlite.ts'
import { effectivelyOnce } from '../../src/index.ts'
import type { SqlStore } from '../../src/store/store.ts'
import { describePostgres } from '../support/postgres.ts'
import { cli } from './run.ts'

const TIMEOUT_MS = 300_000

/** Resolves to the audit. */
async function story(store: SqlStore<unknown>, url: string): Promise<string> {
  const once = effectivelyOnce({ namespace: 'shop', store, guard: 'off', sweep: false })
  await once.migrate()
  await once.run({ scope: 'ann', key: 'a', input: 1 }, async () => 'for Ann')
  const fails = once.run({ scope: 'ann', key: 'b', input: 1, lease: '5s' }, async () => Promise.reject(new Error('no')))
  await expect(fails).rejects.toThrow('no')
  const erase = (...args: string[]): ReturnType<typeof cli> => cli(['erase', ...args, '--url', url])
  const ann = ['--namespace', 'shop', '--scope', 'ann']
  for (const [wrong, words] of [
    [['--namespace', 'shop', '--why', 'x'], '--scope is needed'],
    [['--scope', 'ann', '--why', 'x'], '--namespace'],
    [[...ann], '--why is needed'],
    [[...ann, '--why', 'x', '--aggregate', 'customer'], 'TYPE:ID'],
  ] as const) {
    expect(await erase(...wrong)).toMatchObject({ code: 2, err: expect.stringContaining(words) })
  }
  const dry = await erase(...ann, '--dry-run')
  expect(dry).toMatchObject({ code: 3, out: expect.stringContaining('1 operation, 0 events, 0 dead letters would be') })
  expect(dry.out).toContain('is abandoned')
  expect(await once.run({ scope: 'ann', key: 'a', input: 1 }, async () => 'again')).toBe('for Ann')
  const why = ['--why', 'request 1042', '--aggregate', 'customer:a:b', '--aggregate', 'charge:7']
  const one = await erase(...ann, '--key', 'a', '--json', ...why)
  expect(one.code).toBe(0)
  expect(JSON.parse(one.out)).toMatchObject({ operations: 1, finished: true })
  const all = await erase(...ann, ...why)
  expect(all).toMatchObject({ code: 3, out: expect.stringContaining('0 operations, 0 events, 0 dead letters erased') })
  const late = effectivelyOnce({ namespace: 'shop', store, guard: 'off', sweep: false })
  const retry = late.run({ scope: 'ann', key: 'a', input: 1 }, async () => 'again')
  await expect(retry).rejects.toMatchObject({ code: 'ONCE_GONE' })
  return (await cli(['redrive', 'audit', '--url', url])).out
}

describePostgres('the command erase, on PostgreSQL', (database) => {
  it('erases a scope and says what stays', { timeout: TIMEOUT_MS }, async () => {
    const pool = new pg.Pool({ connectionString: database.url })
    try {
      expect(await story(pgStore(pool), database.url)).toMatch(/erased .*request 1042/)
    } finally {
      await pool.end()
    }
  })
})

describe('the command erase, on SQLite', () => {
  it('erases a scope and says what stays', { timeout: TIMEOUT_MS }, async () => {
    const folder = await mkdtemp(join(tmpdir(), 'erase-'))
    const url = join(folder, 'shop.db')
    const store = sqliteStore({ file: url })
    try {
      expect(await story(store, url)).toMatch(/erased .*request 1042/)
    } finally {
      await store.close()
      await rm(folder, { recursive: true })
    }
  })
})
