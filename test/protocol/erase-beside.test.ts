import pg from 'pg'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { pgStore } from '../../src/entry/pg.ts'
import { effectivelyOnce, type Erased, type Once } from '../../src/index.ts'
import { identity } from '../../src/key/identity.ts'
import { describePostgres } from '../support/postgres.ts'

const NAMESPACE = 'beside'

describePostgres('once.erase beside everything else, on PostgreSQL', (database) => {
  let pool: pg.Pool
  // oxlint-disable-next-line no-explicit-any -- the pool's own client
  let once: Once<any, {}>
  // oxlint-disable-next-line no-explicit-any -- as above
  const instance = (): Once<any, {}> =>
    effectivelyOnce({ namespace: NAMESPACE, store: pgStore(pool), guard: 'off', sweep: false, expired: 'rerun' })

  beforeAll(async () => {
    pool = new pg.Pool({ connectionString: database.url, max: 20 })
    pool.on('error', () => {})
    once = instance()
    await once.migrate()
    await pool.query('create table effects (key text not null)')
  })
  afterAll(() => pool.end())

  const count = async (sql: string, ...values: unknown[]): Promise<number> =>
    Number((await pool.query<{ n: string }>(sql, values)).rows[0]?.n)
  const scopeOf = (scope: string): string => identity({ namespace: NAMESPACE, scope, key: '' }).scope

  it('erases records that others hold for a moment, however many', async () => {
    const keys = Array.from({ length: 1_200 }, (_, i) => `k${i}`)
    for (let from = 0; from < keys.length; from += 100)
      await Promise.all(
        keys.slice(from, from + 100).map((key) => once.run({ scope: 'held', key, input: 1 }, async () => 'Ann')),
      )
    const holder = await pool.connect()
    await holder.query('begin')
    await holder.query('select id from effectively_once.record where scope = $1 for update', [scopeOf('held')])
    const erasing = instance().erase({ scope: 'held' })
    await new Promise((resolve) => setTimeout(resolve, 100))
    await holder.query('commit')
    holder.release()
    const { operations, finished, refused } = await erasing
    // Either all of them are erased, or the erasure says that it has not finished.
    expect(finished).toBe(operations === keys.length)
    expect(refused.operations.length > 0).toBe(operations < keys.length)
    expect(await instance().erase({ scope: 'held' })).toMatchObject({ operations: 1_200 - operations, finished: true })
  })

  it('waits for a transaction that was open, and erases what it committed', async () => {
    let release: () => void = () => {}
    const held = new Promise<void>((resolve) => (release = resolve))
    let isRunning: () => void = () => {}
    const running = new Promise<void>((resolve) => (isRunning = resolve))
    const run = once.run({ scope: 'open', key: 'k', input: 1 }, async () => {
      isRunning()
      await held
      return 'Ann'
    })
    await running
    const erasing = instance().erase({ scope: 'open' })
    let isErased = false
    void erasing.then(() => (isErased = true))
    await new Promise((resolve) => setTimeout(resolve, 300))
    expect(isErased).toBe(false)
    release()
    expect(await run).toBe('Ann')
    expect(await erasing).toMatchObject({ operations: 1, finished: true })
    const retry = instance().run({ scope: 'open', key: 'k', input: 1 }, async () => 'again')
    await expect(retry).rejects.toMatchObject({ code: 'ONCE_GONE' })
  }, 60_000)

  it('sees the answer of a leased operation that completes at the same moment', async () => {
    const scope = 'completing'
    for (let round = 0; round < 20; round++) {
      const key = `k${round}`
      const leased = { scope, key, input: 1, lease: '20s', label: 'Ann' } as const
      let last: Erased | undefined
      const run = once.run(leased, async (op) => {
        await op.step('pay', async () => 'for Ann')
        return op.commit(async () => 'Ann')
      })
      const erases = [0, 1].map(async () => (last = await instance().erase({ scope, key })))
      await Promise.all([run, ...erases])
      last = await once.erase({ scope, key })
      expect(last.finished).toBe(true)
    }
    const mine = `id in (select id from effectively_once.record where scope = $1)`
    expect(await count(`select count(*) n from effectively_once.record where scope = $1`, scopeOf(scope))).toBe(20)
    for (const table of ['answer', 'step', 'recover'])
      expect(await count(`select count(*) n from effectively_once.${table} where ${mine}`, scopeOf(scope))).toBe(0)
    const open = `select count(*) n from effectively_once.record where scope = $1 and (fp_version > 0 or label is not null)`
    expect(await count(open, scopeOf(scope))).toBe(0)
  }, 120_000)

  it('has one effect for each key, and no answer left, while retries, renewals and sweeps run', async () => {
    const scope = 'crowd'
    const keys = Array.from({ length: 20 }, (_, n) => `k${n}`)
    const erased = new Set<string>()
    const broken: string[] = []
    const charge = async (key: string): Promise<void> => {
      const began = erased.has(key)
      try {
        await instance().run({ scope, key, input: 1 }, async ({ tx }) => {
          await tx.query('insert into effects values ($1)', [key])
          return 'Ann'
        })
        if (began) broken.push(`${key} was answered after it was erased`)
      } catch (error) {
        const { code } = error as { code?: string }
        if (code !== 'ONCE_GONE' && code !== 'ONCE_IN_FLIGHT') broken.push(`${key}: ${String(error)}`)
      }
    }
    await Promise.all(keys.map(charge))
    const until = Date.now() + 5_000
    const callers = Array.from({ length: 6 }, async (_, n) => {
      for (let i = n; Date.now() < until; i++) await charge(keys[i % keys.length] as string)
    })
    const sweeps = (async () => {
      while (Date.now() < until) await once.sweep().catch(() => {})
    })()
    for (const key of keys) {
      const { finished } = await instance().erase({ scope, key })
      if (finished) erased.add(key)
    }
    await Promise.all([...callers, sweeps])
    expect(broken).toEqual([])
    expect(erased.size).toBeGreaterThan(keys.length / 2)
    expect(await once.erase({ scope })).toMatchObject({ finished: true })
    expect(await count('select count(*) n from effects')).toBe(keys.length)
    const left = `select count(*) n from effectively_once.answer where id in (select id from effectively_once.record where scope = $1)`
    expect(await count(left, scopeOf(scope))).toBe(0)
  }, 120_000)

  it('removes the answers of earlier lives in the partitions of other days, and keeps the day’s other answers', async () => {
    const one = { scope: 'lives', key: 'k', input: 1 } as const
    await once.run(one, async () => 'first')
    await once.run({ ...one, scope: 'other' }, async () => 'kept')
    const { id, scope } = identity({ namespace: NAMESPACE, scope: 'lives', key: 'k' })
    await pool.query(`update effectively_once.answer set day = day + 40 where id = $1`, [id])
    await pool.query(`update effectively_once.record set expires_at = now() - interval '1 hour' where id = $1`, [id])
    expect(await instance().run(one, async () => 'second')).toBe('second')
    expect(await count('select count(*) n from effectively_once.answer where id = $1', id)).toBe(2)
    expect(await once.erase({ scope: 'lives' })).toMatchObject({ operations: 1 })
    expect(await count('select count(*) n from effectively_once.answer where id = $1', id)).toBe(0)
    expect(await instance().run({ ...one, scope: 'other' }, async () => 'again')).toBe('kept')
    expect(scope).toBe(scopeOf('lives'))
  })

  it('goes on after a crash in the middle', async () => {
    const scope = 'crash'
    for (let n = 0; n < 30; n++) await once.run({ scope, key: `k${n}`, input: 1 }, async () => 'Ann')
    const store = pgStore(pool)
    const part = { scope: scopeOf(scope), id: null, after: null, limit: 10, dryRun: false }
    expect((await store.erasure.operations(part)).erased).toBe(10)
    expect(await once.erase({ scope })).toMatchObject({ operations: 20, finished: true })
  })
})
