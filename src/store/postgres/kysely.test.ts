import { CamelCasePlugin, Kysely, PostgresDialect, sql, type ControlledTransaction, type Transaction } from 'kysely'
import pg from 'pg'
import { describe, expect, expectTypeOf, it } from 'vitest'
import { describePostgres } from '../../../test/support/postgres.ts'
import type { SqlStore } from '../store.ts'
import { driverContract, storeWorks, refusesWrongHandles, type Bench } from '../../../test/support/driver-contract.ts'
import { kyselyDriver, kyselyStore } from './kysely.ts'

interface DB {
  effect: { id: number; note: string | null }
}

const ONE = { name: '', text: 'select 1 as one', values: [] }

describePostgres('Kysely', (database) => {
  const make = async (): Promise<Bench<Transaction<DB>>> => {
    const admin = new pg.Client({ connectionString: database.url })
    await admin.connect()
    const db = connect(database.url)
    return {
      driver: kyselyDriver(db, { dialect: 'postgres' }),
      insert: (tx, id) => tx.insertInto('effect').values({ id }).execute(),
      later(tx, id) {
        // One was compiled before, one is a builder.
        const builder = tx.withSchema('public').insertInto('effect').values({ id })
        const compiled = builder.compile()
        return id % 2 === 0 ? () => builder.execute() : () => tx.withoutPlugins().executeQuery(compiled)
      },
      async nested(tx, work) {
        await sql`savepoint nested`.execute(tx)
        try {
          await work(tx)
          await sql`release savepoint nested`.execute(tx)
        } catch (error) {
          await sql`rollback to savepoint nested`.execute(tx)
          throw error
        }
      },
      raw: (tx, text) => sql.raw(text).execute(tx),
      own: (work) => db.transaction().execute(work),
      root: db as unknown as Transaction<DB>,
      admin: async (text) => (await admin.query<Record<string, unknown>>(text)).rows,
      async close() {
        await db.destroy()
        await admin.end()
      },
    }
  }
  driverContract(make, { server: true })
  storeWorks(make)

  it('reads its own columns under a plugin that renames', async () => {
    const db = connect(database.url).withPlugin(new CamelCasePlugin())
    try {
      const statement = { name: '', text: 'select 1 as lease_left_ms', values: [] }
      const driver = kyselyDriver(db, { dialect: 'postgres' })
      expect(await driver.query(statement)).toEqual([{ lease_left_ms: 1 }])
      const { connection, rows } = await driver.begin(statement)
      expect(rows).toEqual([{ lease_left_ms: 1 }])
      const { tx } = connection.revocable()
      expect((await sql`select 1 as lease_left_ms`.execute(tx)).rows).toEqual([{ leaseLeftMs: 1 }])
      await connection.rollback()
    } finally {
      await db.destroy()
    }
  })

  it('refuses to begin another transaction on the handle', async () => {
    const db = connect(database.url)
    try {
      const { connection } = await kyselyDriver(db, { dialect: 'postgres' }).begin(ONE)
      const { tx } = connection.revocable()
      expect(() => tx.startTransaction()).toThrow(expect.objectContaining({ code: 'ONCE_TX_TAKEN' }))
      expect(() => tx.transaction()).toThrow('not supported')
      await connection.rollback()
    } finally {
      await db.destroy()
    }
  })

  it('joins a controlled transaction', async () => {
    const db = connect(database.url)
    try {
      const tx: ControlledTransaction<DB> = await db.startTransaction().execute()
      const handle = kyselyDriver(db, { dialect: 'postgres' }).join(tx).revocable()
      expect((await sql`select 1 as one`.execute(handle.tx)).rows).toEqual([{ one: 1 }])
      handle.revoke()
      await expect(sql`select 1 as one`.execute(handle.tx)).rejects.toMatchObject({ code: 'ONCE_TX_CLOSED' })
      expect((await sql`select 1 as one`.execute(tx)).rows).toEqual([{ one: 1 }])
      await tx.rollback().execute()
    } finally {
      await db.destroy()
    }
  })
})

describe('kyselyStore', () => {
  refusesWrongHandles((db) => kyselyDriver(db, { dialect: 'postgres' }), 'kyselyStore(db, ...) needs a Kysely')

  it('knows one dialect', () => {
    for (const options of [undefined, {}, { dialect: 'mysql' }]) {
      expect(() => kyselyDriver({} as never, options as never)).toThrow(
        expect.objectContaining({ code: 'ONCE_OPTION_INVALID' }),
      )
    }
  })

  it('infers the transaction', () => {
    const store = kyselyStore(connect('postgres://localhost/none'), { dialect: 'postgres' })
    expectTypeOf(store).toEqualTypeOf<SqlStore<Transaction<DB>>>()
    expectTypeOf<Kysely<DB>>().not.toExtend<Parameters<typeof store.join>[0]>()
  })
})

function connect(url: string): Kysely<DB> {
  const pool = new pg.Pool({ connectionString: url, max: 4 })
  pool.on('error', () => {})
  pool.on('connect', (client) => client.on('error', () => {}))
  return new Kysely<DB>({ dialect: new PostgresDialect({ pool }) })
}
