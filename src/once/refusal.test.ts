import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { sqliteStore, type SqlTx } from '../entry/sqlite.ts'
import { effectivelyOnce, final } from '../index.ts'
import type { SqlStore } from '../store/store.ts'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'refusal-'))
})
afterEach(() => rm(folder, { recursive: true, force: true }))

/** A store that stores a refusal only when it is told to. */
function refusingLate(store: SqlStore<SqlTx>, go: Promise<void>, asked: () => void): SqlStore<SqlTx> {
  return new Proxy(store, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target)
      if (typeof value !== 'function') return value
      if (name !== 'refuse') return value.bind(target) as unknown
      return async (params: unknown) => {
        asked()
        await go
        return (value as (of: unknown) => unknown).call(target, params)
      }
    },
  })
}

it.each([400, 402, 499])('a stored %i is thrown again, by every process', async (status) => {
  const file = join(folder, 'test.db')
  const options = { namespace: 'n', guard: 'off', sweep: false } as const
  const here = effectivelyOnce({ ...options, store: sqliteStore({ file }) })
  const elsewhere = effectivelyOnce({ ...options, store: sqliteStore({ file }) })
  await here.migrate()
  const refused = { name: 'Final', status, body: { no: true }, headers: [['x-why', 'because']] }
  for (const once of [here, here, elsewhere]) {
    const run = once.run({ scope: 's', key: 'k', input: 1 }, async () => {
      throw final({ status, body: { no: true }, headers: [['x-why', 'because']] })
    })
    await expect(run).rejects.toMatchObject(refused)
  }
  await here.close()
  await elsewhere.close()
})

it('whoever refused and has let go of the key does not stand for it: its answer is another one’s', async () => {
  const file = join(folder, 'test.db')
  let store!: () => void
  let asked!: () => void
  const go = new Promise<void>((resolve) => (store = resolve))
  const refusing = new Promise<void>((resolve) => (asked = resolve))
  const options = { namespace: 'n', guard: 'off', sweep: false } as const
  const here = effectivelyOnce({ ...options, store: refusingLate(sqliteStore({ file }), go, asked) })
  const elsewhere = effectivelyOnce({ ...options, store: sqliteStore({ file }) })
  await here.migrate()
  const of = (input: number): { scope: string; key: string; input: number } => ({ scope: 's', key: 'k', input })
  const refused = here.run(of(2), async () => {
    throw final({ status: 402 })
  })
  void refused.catch(() => {})
  await refusing
  expect(await elsewhere.run(of(1), async () => 'made')).toBe('made')
  const again = here.run(of(1), async () => 'twice')
  const early = await Promise.race([
    again.then(
      (value) => value,
      (error: { code: string }) => error.code,
    ),
    new Promise((resolve) => setTimeout(resolve, 50, 'waits')),
  ])
  expect(['waits', 'made']).toContain(early)
  store()
  await expect(refused).rejects.toMatchObject({ code: 'ONCE_MISMATCH' })
  expect(await again).toBe('made')
  await here.close()
  await elsewhere.close()
})
