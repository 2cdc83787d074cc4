import postgres from 'postgres'
import { describe, expect, expectTypeOf, it } from 'vitest'
import { describePostgres } from '../../../test/support/postgres.ts'
import type { SqlStore } from '../store.ts'
import { driverContract, storeWorks, refusesWrongHandles, type Bench } from '../../../test/support/driver-contract.ts'
import { postgresJsBench } from '../../../test/support/postgres-js-bench.ts'
import { CommitLost } from './driver/driver.ts'
import { postgresJsDriver, postgresJsStore } from './postgres-js.ts'

type Tx = postgres.TransactionSql

describePostgres('postgres.js', (database) => {
  const make = (): Promise<Bench<Tx>> => postgresJsBench(database.url)
  driverContract(make, { server: true, joinHeals: false })
  storeWorks(make)

  it('needs three trips at most: begin, first, and last with COMMIT', async () => {
    const sent: string[] = []
    const sql = postgres(database.url, { max: 1, fetch_types: false, debug: (_, text) => sent.push(text) })
    try {
      const driver = postgresJsDriver(sql)
      const statement = { name: 'one', text: 'select $1::int4 as one', values: [1] }
      await (await driver.begin(statement)).connection.commit(statement)
      const { connection } = await driver.begin(statement)
      sent.length = 0
      const commit = connection.commit(statement)
      await new Promise((resolve) => setImmediate(resolve))
      expect(sent).toEqual([statement.text, 'commit'])
      expect(await commit).toBe('committed')
    } finally {
      await sql.end()
    }
  })

  it('does not know the outcome when the reply to the last statement is lost, for COMMIT was behind it', async () => {
    const sql = postgres(database.url, { max: 1 })
    try {
      const { connection } = await postgresJsDriver(sql).begin({ name: '', text: 'select 1', values: [] })
      const last = { name: '', text: 'select pg_terminate_backend(pg_backend_pid())', values: [] }
      await expect(connection.commit(last)).rejects.toBeInstanceOf(CommitLost)
    } finally {
      await sql.end({ timeout: 1 })
    }
  })

  it('sends nothing for a transaction whose connection was lost', async () => {
    const sql = postgres(database.url, { max: 1 })
    const admin = postgres(database.url, { max: 1 })
    try {
      const begin = { name: '', text: 'select pg_backend_pid() as pid', values: [] }
      const { connection, rows } = await postgresJsDriver(sql).begin(begin)
      const { tx } = connection.revocable()
      const rolledBack = tx.unsafe('select pg_sleep(10)').catch(() => connection.rollback())
      await new Promise((resolve) => setTimeout(resolve, 100))
      await admin`select pg_terminate_backend(${Number(rows[0]?.['pid'])})`
      await rolledBack
      await new Promise((resolve) => setTimeout(resolve, 100))
      await expect.poll(() => sql`select 1 as one`.then(([row]) => row?.['one'])).toBe(1)
    } finally {
      await sql.end({ timeout: 1 })
      await admin.end()
    }
  })

  it('undoes a savepoint that outlived its operation nowhere else', async () => {
    const sql = postgres(database.url, { max: 1 })
    try {
      const driver = postgresJsDriver(sql)
      const first = await driver.begin({ name: '', text: 'select 1', values: [] })
      const { tx, revoke } = first.connection.revocable()
      const stray = tx.savepoint(async (inner) => {
        await new Promise((resolve) => setTimeout(resolve, 100))
        await inner`select 1`
      })
      const outcome = stray.then(
        () => 'done',
        (error: { code?: unknown }) => error.code,
      )
      await tx`select 1`
      revoke()
      expect(await first.connection.commit()).toBe('committed')
      const second = await driver.begin({ name: '', text: 'select 1', values: [] })
      expect(await outcome).toBe('ONCE_TX_CLOSED')
      expect(await second.connection.commit()).toBe('committed')
    } finally {
      await sql.end({ timeout: 1 })
    }
  })

  it('awaits a last statement that postgres.js itself may refuse', async () => {
    const sql = postgres(database.url, { max: 2 })
    try {
      await sql`create table if not exists kept (id int)`
      const { connection } = await postgresJsDriver(sql).begin({
        name: '',
        text: 'insert into kept values (1)',
        values: [],
      })
      const last = { name: 'never', text: 'select $1::text as never', values: [undefined] }
      await expect(connection.commit(last)).rejects.toMatchObject({ code: 'UNDEFINED_VALUE' })
      expect(await sql`select id from kept`).toHaveLength(0)
    } finally {
      await sql.end()
    }
  })

  it.each(['camel', 'pascal', 'kebab', 'toCamel'] as const)(
    'reads its own columns under the transform %s',
    async (name) => {
      const sql = postgres(database.url, { max: 1, transform: postgres[name] })
      try {
        const statement = { name: '', text: 'select 1 as lease_left_ms, 2 as ok', values: [] }
        expect(await postgresJsDriver(sql).query(statement)).toEqual([{ lease_left_ms: 1, ok: 2 }])
      } finally {
        await sql.end()
      }
    },
  )

  it('notifies through the transaction', async () => {
    const sql = postgres(database.url, { max: 3 })
    const heard: string[] = []
    try {
      await sql.listen('news', (payload) => heard.push(payload))
      const first = await postgresJsDriver(sql).begin({ name: '', text: 'select 1', values: [] })
      await first.connection.revocable().tx.notify('news', 'lost')
      await first.connection.rollback()
      const second = await postgresJsDriver(sql).begin({ name: '', text: 'select 1', values: [] })
      await second.connection.revocable().tx.notify('news', 'kept')
      await second.connection.commit()
      await expect.poll(() => heard).toEqual(['kept'])
    } finally {
      await sql.end()
    }
  })

  it('streams, and reads by cursor, through the handle', async () => {
    const sql = postgres(database.url, { max: 1 })
    try {
      const { connection } = await postgresJsDriver(sql).begin({ name: '', text: 'select 1', values: [] })
      const { tx, revoke } = connection.revocable()
      const seen: unknown[] = []
      for await (const [row] of tx`select generate_series(1, 3) as x`.cursor(1)) seen.push(row?.['x'])
      await tx`select 4 as x`.forEach((row) => seen.push(row['x']))
      expect(seen).toEqual([1, 2, 3, 4])
      const late = tx`select 5 as x`.cursor(1)[Symbol.asyncIterator]()
      revoke()
      await expect(late.next()).rejects.toMatchObject({ code: 'ONCE_TX_CLOSED' })
      expect(() => tx.prepare('x')).toThrow(expect.objectContaining({ code: 'ONCE_TX_TAKEN' }))
      await connection.rollback()
    } finally {
      await sql.end()
    }
  })
})

describe('postgresJsStore', () => {
  refusesWrongHandles(postgresJsDriver, 'postgresJsStore(sql) needs the sql')

  it('infers the transaction', () => {
    const sql = postgres({ max: 1, types: { point: { to: 600, from: [600], serialize: String, parse: String } } })
    const store = postgresJsStore(sql)
    expectTypeOf(postgresJsStore(postgres())).toEqualTypeOf<SqlStore<postgres.TransactionSql>>()
    expectTypeOf(store).toEqualTypeOf<SqlStore<postgres.TransactionSql<{ point: string }>>>()
    expectTypeOf(sql).not.toExtend<Parameters<typeof store.join>[0]>()
    // @ts-expect-error a string is no sql
    expect(() => postgresJsStore('postgres://')).toThrow('ONCE_OPTION_INVALID')
  })
})
