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

const TIMEOUT_MS = 120_000
const AUDITED = /operation settle .*INC-17/

/** One operation whose call has an unknown outcome, and one that was abandoned. */
async function story(store: SqlStore<unknown>, url: string): Promise<string> {
  const once = effectivelyOnce({ namespace: 'shop', store, guard: 'off', sweep: false })
  await once.migrate()
  const down = async (): Promise<never> => Promise.reject(new Error('down'))
  const wire = { scope: 'ann', key: 'w', input: 1, lease: '5s', label: 'order 1' } as const
  for (let attempt = 0; attempt < 2; attempt++)
    await once.run(wire, async (op) => op.step('wire', down, { keyed: false })).catch(() => {})
  const pay = {
    scope: 'ann',
    key: 'p',
    input: { card: '4242' },
    lease: '5s',
    label: 'order 2',
    recover: 'pay',
  } as const
  await once.run(pay, async (op) => op.step('pay', down)).catch(() => {})
  const run = (...args: string[]): ReturnType<typeof cli> => cli(['operations', ...args, '--url', url])
  const all = await run()
  expect(all.out).toContain('order 1')
  expect(all.out).toContain('order 2')
  const ids = async (...args: string[]): Promise<string[]> =>
    (JSON.parse((await run('list', '--json', ...args)).out) as { id: string }[]).map(({ id }) => id)
  const [unknown] = (await ids('--state', 'unknown')) as [string]
  const [abandoned] = (await ids('--label', 'order 2')) as [string]
  expect(await ids('--scope', 'ann', '--namespace', 'shop')).toEqual([unknown, abandoned])
  expect(await ids('--namespace', 'another')).toEqual([])
  expect(await ids('--older-than', '1h')).toEqual([])
  const shown = await run('show', abandoned)
  expect(shown.out).toContain('recoverable  true')
  expect(shown.out).not.toContain('4242')
  expect((await run('show', abandoned, '--reveal')).out).toContain('4242')
  expect((await run('show', unknown)).out).toContain('step wire: started')
  const why = ['--why', 'INC-17']
  for (const wrong of [
    ['show', 'x'],
    ['list', '--state', 'completed'],
    ['list', '--scope', 'ann'],
    ['settle', unknown, '--step', 'wire', '--rerun'],
    ['settle', unknown, ...why],
    ['settle', unknown, '--rerun', ...why],
    ['settle', unknown, '--step', 'wire', '--done', '{', ...why],
    ['settle', unknown, '--fail', '200', ...why],
  ]) {
    const { code, err } = await run(...wrong)
    expect({ wrong, code }).toEqual({ wrong, code: 2 })
    expect(err.trim().split('\n')).toHaveLength(1)
  }
  expect((await run('release', unknown, ...why)).code).toBe(1)
  expect(await run('release', abandoned, ...why)).toMatchObject({ code: 0 })
  expect(await run('settle', abandoned, '--step', 'pay', '--rerun', ...why)).toMatchObject({ code: 1 })
  expect(await run('settle', unknown, '--step', 'wire', '--done', '"W-17"', ...why)).toMatchObject({ code: 0 })
  const failed = await run('settle', abandoned, '--fail', '410', '--body', '{"gone":true}', ...why)
  expect(failed).toMatchObject({ code: 0, out: 'settled\n' })
  const wired = await once.run(wire, async ({ step, commit }) => {
    const reference = await step('wire', down, { keyed: false })
    return commit(async () => reference)
  })
  expect(wired).toBe('W-17')
  await expect(once.run(pay, down)).rejects.toMatchObject({ status: 410, body: { gone: true } })
  expect(await run('list')).toMatchObject({ code: 0, out: 'no matching operation\n' })
  const { out } = await cli(['redrive', 'audit', '--url', url])
  await once.close()
  return out
}

describePostgres('operations on the command line', (database) => {
  it(
    'are listed, shown, released and settled on PostgreSQL',
    async () => {
      const pool = new pg.Pool({ connectionString: database.url })
      expect(await story(pgStore(pool), database.url)).toMatch(AUDITED)
      await pool.end()
    },
    TIMEOUT_MS,
  )
})

describe('operations on the command line, on SQLite', () => {
  it(
    'are listed, shown, released and settled',
    async () => {
      const folder = await mkdtemp(join(tmpdir(), 'operations-'))
      const file = join(folder, 'shop.db')
      expect(await story(sqliteStore({ file }), file)).toMatch(AUDITED)
      await rm(folder, { recursive: true, force: true })
    },
    TIMEOUT_MS,
  )
})
