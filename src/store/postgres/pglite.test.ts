import { PGlite, type Transaction } from '@electric-sql/pglite'
import { afterAll, describe, expect, expectTypeOf, it } from 'vitest'
import { WRITER_HOLD_MS_MAX } from '../../limits.ts'
import type { SqlStore } from '../store.ts'
import { driverContract, storeWorks, refusesWrongHandles, type Bench } from '../../../test/support/driver-contract.ts'
import { pgliteDriver, pgliteStore } from './pglite.ts'

describe('PGlite', () => {
  const db = new PGlite()
  afterAll(() => db.close())

  const make = async (): Promise<Bench<Transaction>> => ({
    driver: pgliteDriver(db),
    insert: (tx, id) => tx.query('insert into effect (id) values ($1)', [id]),
    later: (tx, id) => () => tx.sql`insert into effect (id) values (${id})`,
    async nested(tx, work) {
      await tx.exec('savepoint nested')
      try {
        await work(tx)
        await tx.exec('release savepoint nested')
      } catch (error) {
        await tx.exec('rollback to savepoint nested')
        throw error
      }
    },
    raw: (tx, text) => tx.exec(text),
    own: (work) => db.transaction(work),
    root: db as unknown as Transaction,
    admin: async (text) => (await db.query<Record<string, unknown>>(text)).rows,
    close: () => Promise.resolve(),
  })
  driverContract(make, { server: false })
  storeWorks(make)

  it('has one connection: operations take turns', async () => {
    const driver = pgliteDriver(db)
    const statement = { name: '', text: 'select 1 as one', values: [] }
    expect(driver.single).toBe(true)
    const { connection } = await driver.begin(statement)
    const order: string[] = []
    const second = driver.begin(statement).then(async (begun) => {
      order.push('second')
      await begun.connection.rollback()
    })
    const query = driver.query(statement).then(() => order.push('query'))
    await new Promise((resolve) => setTimeout(resolve, 30))
    order.push('first')
    await connection.commit()
    await Promise.all([second, query])
    expect(order).toEqual(['first', 'second', 'query'])
  })

  it('ends an operation that holds the only connection too long', { timeout: 15_000 }, async () => {
    const driver = pgliteDriver(db)
    const statement = { name: '', text: 'select 1 as one', values: [] }
    const { connection } = await driver.begin(statement)
    const { tx } = connection.revocable()
    await tx.exec('create table held (id int)')
    await new Promise((resolve) => setTimeout(resolve, WRITER_HOLD_MS_MAX + 200))
    await expect(tx.exec('select 1')).rejects.toMatchObject({ code: 'ONCE_TX_CLOSED' })
    await expect(connection.commit(statement)).rejects.toMatchObject({ code: 'ONCE_WRITER_HELD' })
    await connection.rollback()
    expect(await driver.query({ ...statement, text: `select to_regclass('held')::text as held` })).toEqual([
      { held: null },
    ])
  })

  it('refuses whoever waits for itself', { timeout: 15_000 }, async () => {
    const driver = pgliteDriver(db)
    const statement = { name: '', text: 'select 1 as one', values: [] }
    await db.transaction(async () => {
      const waiting = driver.begin(statement).then(({ connection }) => connection.rollback())
      await expect(driver.query(statement)).rejects.toMatchObject({ code: 'ONCE_QUEUE_FULL' })
      void waiting
    })
    expect(await driver.query(statement)).toEqual([{ one: 1 }])
  })

  it('leaves the end of the transaction to the operation', async () => {
    const { connection } = await pgliteDriver(db).begin({ name: '', text: 'select 1 as one', values: [] })
    const { tx, revoke } = connection.revocable()
    await expect(tx.rollback()).rejects.toMatchObject({ code: 'ONCE_TX_TAKEN' })
    expect(tx.closed).toBe(false)
    revoke()
    expect(tx.closed).toBe(true)
    expect(await connection.commit()).toBe('committed')
  })
})

describe('pgliteStore', () => {
  refusesWrongHandles(pgliteDriver, 'pgliteStore(db) needs a PGlite')

  it('infers the transaction', () => {
    expectTypeOf(pgliteStore<Transaction>).returns.toEqualTypeOf<SqlStore<Transaction>>()
    const infer = (db: PGlite) => pgliteStore(db)
    expectTypeOf(infer).returns.toEqualTypeOf<SqlStore<Transaction>>()
    expectTypeOf<PGlite>().not.toExtend<Transaction>()
  })
})
