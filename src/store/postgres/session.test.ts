import pg from 'pg'
import postgres from 'postgres'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { describePostgres } from '../../../test/support/postgres.ts'
import { effectivelyOnce, type Once } from '../../index.ts'
import { pgStore } from './pg.ts'
import { postgresJsStore } from './postgres-js.ts'

/** A savepoint that is open costs the server memory until the end of the transaction. */
const OPEN = `select count(*)::int4 as open from pg_backend_memory_contexts where name = 'CurTransactionContext'`

describePostgres('operations that ended inside another one', (database) => {
  let pool: pg.Pool
  let sql: postgres.Sql
  beforeAll(async () => {
    pool = new pg.Pool({ connectionString: database.url })
    sql = postgres(database.url, { max: 2 })
    const once = effectivelyOnce({ namespace: 'shop', store: pgStore(pool), guard: 'off', sweep: false })
    await once.migrate()
    await once.run({ scope: 'a', key: 'known', input: 1 }, async () => 'known')
  })
  afterAll(async () => {
    await pool.end()
    await sql.end()
  })

  /** How many savepoints are open before and after 30 operations that replay, and 30 that fail. */
  async function openAround<Tx>(once: Once<Tx, {}>, count: (tx: Tx) => Promise<unknown>): Promise<unknown[]> {
    const counts: unknown[] = []
    await once.run({ scope: 'a', key: 'outer', input: 1 }, async ({ tx }) => {
      counts.push(await count(tx))
      for (let n = 0; n < 30; n++) {
        await once.run({ scope: 'a', key: 'known', input: 1 }, async () => 'again')
        const failing = once.run({ scope: 'a', key: `failing ${n}`, input: 1 }, async () => {
          throw new Error('no money')
        })
        await expect(failing).rejects.toThrow('no money')
      }
      counts.push(await count(tx))
    })
    return counts
  }

  it('leave no savepoint open, by pg', async () => {
    const once = effectivelyOnce({ namespace: 'shop', store: pgStore(pool), guard: 'off', sweep: false })
    const [before, after] = await openAround(once, async (tx) => (await tx.query(OPEN)).rows[0]?.['open'])
    expect(after).toBe(before)
  })

  it('leave no savepoint open, by postgres.js', async () => {
    const once = effectivelyOnce({ namespace: 'other', store: postgresJsStore(sql), guard: 'off', sweep: false })
    const [before, after] = await openAround(once, async (tx) => (await tx.unsafe(OPEN))[0]?.['open'])
    expect(after).toBe(before)
  })
})
