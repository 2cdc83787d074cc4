import pg from 'pg'
import { expect, it } from 'vitest'
import { pgStore } from '../../src/entry/pg.ts'
import { effectivelyOnce } from '../../src/index.ts'
import { claimOf } from '../support/claims.ts'
import { outcomeOf } from '../support/charges.ts'
import { describePostgres } from '../support/postgres.ts'

/** PostgreSQL releases the locks of a transaction one after the other, in an order of its own. */
describePostgres('a key whose holder is rolling back', (database) => {
  /** Holds the lock of the key without the one of its fingerprint, as a holder that has released the first of the two. */
  async function halfReleased<T>(key: string, forMs: number, work: () => Promise<T>): Promise<T> {
    const holder = new pg.Client({ connectionString: database.url })
    await holder.connect()
    try {
      await holder.query('begin')
      await holder.query('select pg_advisory_xact_lock($1)', [claimOf(key).lock])
      const result = work()
      await new Promise((resolve) => setTimeout(resolve, forMs))
      await holder.query('rollback')
      return await result
    } finally {
      await holder.end()
    }
  }

  it('is free for the same request, and another request is told so as before', async () => {
    const pool = new pg.Pool({ connectionString: database.url })
    pool.on('error', () => {})
    const once = effectivelyOnce({ namespace: 'test', store: pgStore(pool), guard: 'off', sweep: false })
    await once.migrate()
    const run = (key: string): Promise<unknown> => once.run({ scope: 'u', key, input: 1 }, async () => 'ran')
    expect(await halfReleased('atomic', 5, () => outcomeOf(run('atomic')))).toBe('value')
    const nested = (): Promise<unknown> => once.run({ scope: 'u', key: 'outer', input: 1 }, () => run('nested'))
    expect(await halfReleased('nested', 5, () => outcomeOf(nested()))).toBe('value')
    const leased = (): Promise<unknown> =>
      once.run({ scope: 'u', key: 'leased', input: 1, lease: '10s' }, async ({ commit }) => commit(async () => 'ran'))
    expect(await halfReleased('leased', 5, () => outcomeOf(leased()))).toBe('value')
    expect(await halfReleased('running', 1_000, () => outcomeOf(run('running')))).toBe('ONCE_MISMATCH')
    await once.close()
    await pool.end()
  })
})
