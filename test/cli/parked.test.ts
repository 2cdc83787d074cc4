import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { describe, expect, it } from 'vitest'
import { pgStore } from '../../src/entry/pg.ts'
import { sqliteStore } from '../../src/entry/sqlite.ts'
import { effectivelyOnce, event, inProcessSink } from '../../src/index.ts'
import type { SqlStore } from '../../src/store/store.ts'
import { describePostgres } from '../support/postgres.ts'
import { cli } from './run.ts'

const TIMEOUT_MS = 120_000
const AUDITED = /parked skip +- +ada +b1 was a test/
const events = { 'order.placed': event<{ order: string; n: number }>(({ order }) => order) }

/** Two orders of three events each; the first of each is refused. */
async function story(store: SqlStore<unknown>, url: string): Promise<string> {
  const once = effectivelyOnce({ namespace: 'shop', store, events, guard: 'off', sweep: false })
  await once.migrate()
  const seen: string[] = []
  let broken = true
  const to = inProcessSink(
    ({ data }) => {
      const { order, n } = data as { order: string; n: number }
      if (broken && n === 1) throw new Error('the receiver is wrong')
      seen.push(`${order}${n}`)
    },
    { name: 'hook' },
  )
  for (const order of ['a', 'b'])
    for (const n of [1, 2, 3])
      await once.run({ scope: 's', key: `${order}${n}`, input: null }, ({ publish }) =>
        publish('order.placed', { order, n }),
      )
  const relay = once.relay({ to, attempts: 1 })
  await relay.drain()
  const run = (...args: string[]): ReturnType<typeof cli> => cli(['parked', ...args, '--url', url])
  const listed = await run('list', '--destination', 'hook')
  expect(listed.out).toContain('the receiver is wrong')
  expect(listed.out).toContain('(behind another event)')
  const json = await run('list', '--destination', 'hook', '--json')
  expect(JSON.parse(json.out)).toHaveLength(6)
  for (const wrong of [
    ['list'],
    ['release', '--destination', 'hook'],
    ['skip', '--destination', 'hook'],
    ['skip', '--destination', 'nobody', '--why', 'x'],
    ['release', '--destination', 'hook', '--why', 'x', '--id', 'y'],
    ['discard'],
  ]) {
    const { code, err } = await run(...wrong)
    expect({ wrong, code }).toEqual({ wrong, code: 2 })
    expect(err.trim().split('\n')).toHaveLength(1)
  }
  broken = false
  expect((await run('release', '--destination', 'hook', '--aggregate', 'a', '--why', 'mended')).out).toBe(
    '3 events will be sent again\n',
  )
  const skip = ['skip', '--destination', 'hook', '--aggregate', 'b', '--why', 'b1 was a test', '--by', 'ada', '--json']
  expect(JSON.parse((await run(...skip)).out)).toEqual({ skipped: 1 })
  await relay.drain()
  expect(seen.filter((one) => one.startsWith('a'))).toEqual(['a1', 'a2', 'a3'])
  expect(seen.filter((one) => one.startsWith('b'))).toEqual(['b2', 'b3'])
  expect((await run('list', '--destination', 'hook')).out).toBe('nothing is parked\n')
  await once.close()
  return (await cli(['redrive', 'audit', '--url', url])).out
}

describePostgres('parked on the command line, PostgreSQL', (database) => {
  it(
    'lists, releases, skips, and keeps the reason',
    async () => {
      const pool = new pg.Pool({ connectionString: database.url, max: 5 })
      expect(await story(pgStore(pool), database.url)).toMatch(AUDITED)
      await pool.end()
    },
    TIMEOUT_MS,
  )
})

describe('parked on the command line, SQLite', () => {
  it(
    'lists, releases, skips, and keeps the reason',
    async () => {
      const folder = await mkdtemp(join(tmpdir(), 'once-parked-'))
      const file = join(folder, 'shop.db')
      expect(await story(sqliteStore({ file }), file)).toMatch(AUDITED)
      await rm(folder, { recursive: true, force: true })
    },
    TIMEOUT_MS,
  )
})
