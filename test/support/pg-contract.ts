import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { pgStore } from '../../src/store/postgres/pg.ts'
import { storeContract, type StoreSubject } from '../../src/testing/contract/store-contract.ts'
import type { Database } from './postgres.ts'
import { inTransaction } from './transaction.ts'

type Tx = Pick<pg.PoolClient, 'query'>

/** The contract of a store, on a PostgreSQL of any version. */
export function pgContract(
  database: Database,
  over: (store: ReturnType<typeof pgStore>) => ReturnType<typeof pgStore> = (store) => store,
): void {
  let pool: pg.Pool

  beforeAll(async () => {
    pool = new pg.Pool({ connectionString: database.url, max: 8 })
    // A transaction the server ended at its deadline takes its connection along.
    pool.on('error', () => undefined)
    await pgStore(pool).schema.migrate()
    await pool.query('create table effects (key text not null)')
  })

  afterAll(() => pool.end())

  // oxlint-disable-next-line no-explicit-any -- the pool's own client
  async function make(): Promise<StoreSubject<any>> {
    const store = over(pgStore(pool))
    return {
      store,
      effect: async (tx: Tx, key) => void (await tx.query('insert into effects values ($1)', [key])),
      async effects(key) {
        const { rows } = await pool.query<{ n: number }>('select count(*)::int4 n from effects where key = $1', [key])
        return rows[0]!.n
      },
      statement: (key) => ({ sql: 'insert into effects values ($1)', values: [key] }),
      poison: () => ({ sql: 'select 1/0', values: [] }),
      fail: async (tx: Tx) => void (await tx.query('select 1/0').catch(() => undefined)),
      transaction: (work) => inTransaction(pool, work),
      dropAnswers: async () => void (await pool.query('delete from effectively_once.answer')),
      close: () => store.close(),
    }
  }

  for (const { name, run } of storeContract(make)) {
    test(name, async ({ skip }) => {
      const result = await run()
      if (result) skip(result.skipped)
      expect(result).toBeUndefined()
    })
  }
}
