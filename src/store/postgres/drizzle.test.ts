import { PGlite } from '@electric-sql/pglite'
import { eq, sql, type ExtractTablesWithRelations } from 'drizzle-orm'
import { drizzle as onPg, type NodePgQueryResultHKT } from 'drizzle-orm/node-postgres'
import { integer, pgTable, text, type PgTransaction } from 'drizzle-orm/pg-core'
import { drizzle as onPGlite, type PgliteQueryResultHKT } from 'drizzle-orm/pglite'
import { drizzle as onPostgresJs, type PostgresJsQueryResultHKT } from 'drizzle-orm/postgres-js'
import pg from 'pg'
import postgres from 'postgres'
import { afterAll, describe, expect, expectTypeOf, it } from 'vitest'
import { describePostgres } from '../../../test/support/postgres.ts'
import type { SqlStore } from '../store.ts'
import { driverContract, storeWorks, refusesWrongHandles, type Bench } from '../../../test/support/driver-contract.ts'
import { drizzleDriver, drizzleStore } from './drizzle.ts'

const effect = pgTable('effect', { id: integer().primaryKey(), note: text() })
const schema = { effect }
type Schema = typeof schema
type PgTx = PgTransaction<NodePgQueryResultHKT, Schema, ExtractTablesWithRelations<Schema>>
type PostgresJsTx = PgTransaction<PostgresJsQueryResultHKT, Schema, ExtractTablesWithRelations<Schema>>
type PGliteTx = PgTransaction<PgliteQueryResultHKT, Schema, ExtractTablesWithRelations<Schema>>
type AnyTx = PgTx | PostgresJsTx | PGliteTx

/** The same for each flavour: one of the lazy ones is a builder, one a prepared query, one relational. */
function ways<Tx extends AnyTx>(): Pick<Bench<Tx>, 'insert' | 'later' | 'nested' | 'raw'> {
  return {
    insert: (tx, id) => (tx as PgTx).insert(effect).values({ id }),
    later(tx, id) {
      const builder = (tx as PgTx).insert(effect).values({ id })
      if (id % 2 === 0) return () => builder.execute()
      const prepared = builder.prepare(`insert_${id}`)
      return () => prepared.execute()
    },
    nested: (tx, work) => (tx as PgTx).transaction((inner) => work(inner as unknown as Tx)),
    raw: (tx, statement) => (tx as PgTx).execute(sql.raw(statement)),
  }
}

describePostgres('Drizzle on node-postgres', (database) => {
  const make = async (): Promise<Bench<PgTx>> => {
    const pool = quietPool(database.url)
    const admin = new pg.Client({ connectionString: database.url })
    await admin.connect()
    const db = onPg(pool, { schema })
    return {
      ...ways<PgTx>(),
      driver: drizzleDriver(db),
      own: (work) => db.transaction(work),
      root: db as unknown as PgTx,
      admin: async (statement) => (await admin.query<Record<string, unknown>>(statement)).rows,
      async close() {
        await pool.end()
        await admin.end()
      },
    }
  }
  driverContract(make, { server: true })
  storeWorks(make)

  it('gives the whole database to the handler, and takes all of it back', async () => {
    const pool = quietPool(database.url)
    try {
      const db = onPg(pool, { schema })
      await db.delete(effect)
      const { connection } = await drizzleDriver(db).begin({ name: '', text: 'select 1 as one', values: [] })
      const { tx, revoke } = connection.revocable()
      await tx.insert(effect).values([{ id: 1 }, { id: 2 }])
      await tx.update(effect).set({ note: 'seen' }).where(eq(effect.id, 1))
      expect(await tx.query.effect.findMany({ columns: { note: true } })).toEqual([{ note: null }, { note: 'seen' }])
      expect(await tx.$count(effect)).toBe(2)
      const chosen = tx.$with('chosen').as(tx.select().from(effect).where(eq(effect.id, 2)))
      expect(await tx.with(chosen).select().from(chosen)).toEqual([{ id: 2, note: null }])
      const late = [
        tx.query.effect.findFirst(),
        tx.$count(effect),
        tx.with(chosen).select().from(chosen),
        tx.execute(sql`select 1`),
      ]
      revoke()
      for (const query of late) {
        await expect(Promise.resolve(query)).rejects.toMatchObject({ code: 'ONCE_TX_CLOSED' })
      }
      await connection.rollback()
      expect(await db.$count(effect)).toBe(0)
    } finally {
      await pool.end()
    }
  })

  it('outlives a connection that breaks at BEGIN, and gives its place in the pool back', async () => {
    let breaks = 2
    class Breaking extends pg.Client {
      constructor(config?: pg.ClientConfig) {
        super(config)
        const query = this.query.bind(this) as (...args: unknown[]) => unknown
        this.query = ((...args: [{ text?: string }]) => {
          if (args[0].text?.startsWith('begin') && breaks-- > 0) this.connection.stream.destroy()
          return query(...args)
        }) as never
      }
    }
    // Without a listener for errors: an error event that reaches nobody ends the process.
    const pool = new pg.Pool({ connectionString: database.url, max: 1, Client: Breaking, connectionTimeoutMillis: 500 })
    try {
      const driver = drizzleDriver(onPg(pool))
      const begin = () => driver.begin({ name: '', text: 'select 1 as one', values: [] })
      for (let i = 0; i < 2; i++) await expect(begin()).rejects.toThrow('Failed query: begin')
      const { connection, rows } = await begin()
      expect(rows).toEqual([{ one: 1 }])
      await connection.rollback()
      expect([pool.totalCount, pool.idleCount]).toEqual([1, 1])
    } finally {
      await pool.end()
    }
  })

  it('listens to the errors of a connection from the moment on in which the pool gives it away', async () => {
    const pool = new pg.Pool({ connectionString: database.url, max: 1 })
    const listening: number[] = []
    pool.on('acquire', (client) => process.nextTick(() => listening.push(client.listenerCount('error'))))
    try {
      const driver = drizzleDriver(onPg(pool))
      for (let i = 0; i < 2; i++) {
        const { connection } = await driver.begin({ name: '', text: 'select 1 as one', values: [] })
        await connection.rollback()
      }
      expect(listening).toEqual([1, 1])
    } finally {
      await pool.end()
    }
  })

  it('prepares a named statement on its connection', async () => {
    const pool = quietPool(database.url)
    try {
      const { connection } = await drizzleDriver(onPg(pool)).begin({
        name: 'ours',
        text: 'select 1 as one',
        values: [],
      })
      const prepared = await connection.query({ name: '', text: 'select name from pg_prepared_statements', values: [] })
      await connection.rollback()
      expect(prepared).toEqual([{ name: 'ours' }])
    } finally {
      await pool.end()
    }
  })

  it('refuses a single client, which all queries of the process would share', () => {
    const client = new pg.Client({ connectionString: database.url })
    expect(() => drizzleDriver(onPg(client))).toThrow(expect.objectContaining({ code: 'ONCE_OPTION_INVALID' }))
  })
})

describePostgres('Drizzle on postgres.js', (database) => {
  const make = async (): Promise<Bench<PostgresJsTx>> => {
    const client = postgres(database.url, { max: 4, onnotice: () => {} })
    const admin = new pg.Client({ connectionString: database.url })
    await admin.connect()
    const db = onPostgresJs(client, { schema })
    return {
      ...ways<PostgresJsTx>(),
      driver: drizzleDriver(db),
      own: (work) => db.transaction(work),
      root: db as unknown as PostgresJsTx,
      admin: async (statement) => (await admin.query<Record<string, unknown>>(statement)).rows,
      async close() {
        await client.end({ timeout: 1 })
        await admin.end()
      },
    }
  }
  driverContract(make, { server: true, joinHeals: false })
  storeWorks(make)
})

describe('Drizzle on PGlite', () => {
  const client = new PGlite()
  afterAll(() => client.close())

  const make = async (): Promise<Bench<PGliteTx>> => {
    const db = onPGlite(client, { schema })
    return {
      ...ways<PGliteTx>(),
      driver: drizzleDriver(db),
      own: (work) => db.transaction(work),
      root: db as unknown as PGliteTx,
      admin: async (statement) => (await client.query<Record<string, unknown>>(statement)).rows,
      close: () => Promise.resolve(),
    }
  }
  driverContract(make, { server: false })
  storeWorks(make)

  it('has one connection', () => {
    expect(drizzleDriver(onPGlite(client)).single).toBe(true)
  })
})

describe('drizzleStore', () => {
  refusesWrongHandles(drizzleDriver, 'drizzleStore(db) needs a PostgreSQL database')

  it('infers the transaction', () => {
    const store = drizzleStore(onPg(new pg.Pool({ connectionString: 'postgres://localhost/none' }), { schema }))
    expectTypeOf(store).toEqualTypeOf<SqlStore<PgTx>>()
    const db = onPostgresJs(postgres(), { schema })
    expectTypeOf(drizzleStore(db)).toEqualTypeOf<SqlStore<PostgresJsTx>>()
    const infer = (pglite: PGlite) => drizzleStore(onPGlite(pglite, { schema }))
    expectTypeOf(infer).returns.toEqualTypeOf<SqlStore<PGliteTx>>()
    expectTypeOf(db).not.toExtend<PostgresJsTx>()
  })
})

function quietPool(url: string): pg.Pool {
  const pool = new pg.Pool({ connectionString: url, max: 4 })
  pool.on('error', () => {})
  return pool
}
