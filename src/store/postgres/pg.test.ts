import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, connect } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { drizzle } from 'drizzle-orm/node-postgres'
import { sql as drizzleSql } from 'drizzle-orm'
import { Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, expectTypeOf, it } from 'vitest'
import { describePostgres } from '../../../test/support/postgres.ts'
import type { SqlStore } from '../store.ts'
import { CommitLost } from './driver/driver.ts'
import type { PgConnection, PgStatement } from './driver/driver.ts'
import { pgDriver, pgStore } from './pg.ts'
import type { PgPoolDriver } from './pg.ts'

type Tx = Omit<pg.PoolClient, 'release' | 'connect' | 'end'>

describe('types', () => {
  it('tx is the pool’s own client without the ways to end it', () => {
    const driver = (pool: pg.Pool) => pgDriver(pool)
    const store = (pool: pg.Pool) => pgStore(pool)
    expectTypeOf(driver).returns.toEqualTypeOf<PgPoolDriver<Tx>>()
    expectTypeOf(store).returns.toEqualTypeOf<SqlStore<Tx>>()
    type JoinedBy = Parameters<PgPoolDriver<Tx>['join']>[0]
    expectTypeOf<pg.PoolClient>().toExtend<JoinedBy>()
    expectTypeOf<pg.Pool>().not.toExtend<JoinedBy>()
  })
})

/** pg-native, as far as the driver can tell: no wire to group statements on, and nothing to unreference. */
class OneByOneClient extends pg.Client {
  readonly native = {}

  constructor(config?: pg.ClientConfig) {
    super(config)
    Object.assign(this, { ref: undefined, unref: undefined })
  }
}

const WAYS = {
  grouped: {},
  concurrent: { pipeline: true },
  single: { Client: OneByOneClient },
} as const satisfies Record<string, pg.PoolConfig>

describePostgres('pg', (database) => {
  const opened: pg.Pool[] = []
  const closed: { close(): Promise<void> }[] = []

  function poolOf(config: pg.PoolConfig = {}): pg.Pool {
    const pool = new pg.Pool({ connectionString: database.url, max: 4, ...config })
    // What an idle client dies of is the pool's affair; without a listener pg ends the process.
    pool.on('error', () => {})
    opened.push(pool)
    return pool
  }

  function driverOf(pool: pg.Pool, trips: number[] = []): PgPoolDriver<Tx> {
    const driver = pgDriver(pool, { onTrip: (statements) => trips.push(statements) })
    closed.push(driver)
    return driver
  }

  beforeEach(async () => {
    const pool = poolOf()
    await pool.query(`
      drop table if exists charges, records, late cascade;
      create table charges (id int primary key, note text);
      create table records (id int primary key, token int);
      create table late (id int unique deferrable initially deferred);
      insert into records values (1, 2)`)
  })

  afterEach(async () => {
    await Promise.all(closed.splice(0).map((driver) => driver.close()))
    await Promise.all(opened.splice(0).map((pool) => (pool.ending ? Promise.resolve() : pool.end())))
  })

  async function ask(text: string): Promise<unknown[]> {
    const client = new pg.Client({ connectionString: database.url })
    await client.connect()
    try {
      return (await client.query(text)).rows
    } finally {
      await client.end()
    }
  }

  async function charges(): Promise<number[]> {
    return (await ask('select id from charges order by id')).map((row) => (row as { id: number }).id)
  }

  async function kill(pid: unknown): Promise<void> {
    await ask(`select pg_terminate_backend(${Number(pid)})`)
  }

  /** Waits until the backend runs (or waits in) what `like` says, then ends it. */
  async function killWhile(like: string): Promise<void> {
    for (let i = 0; i < 500; i++) {
      const found = await ask(
        `select pid from pg_stat_activity where wait_event = '${like}' and datname = current_database()`,
      )
      if (found.length > 0) return kill((found[0] as { pid: number }).pid)
      await sleep(10)
    }
    throw new Error(`no backend waits in ${like}`)
  }

  const PID: PgStatement = { name: 'pid', text: 'select pg_backend_pid() as pid', values: [] }

  describe.each(Object.entries(WAYS))('%s', (way, config) => {
    it('begin with a statement and a statement with commit: trips and statements', async () => {
      const trips: number[] = []
      const driver = driverOf(poolOf(config), trips)
      const { connection, rows } = await driver.begin(insertCharge(1))
      expect(rows).toEqual([{ id: 1 }])
      expect(await charges()).toEqual([])
      await connection.query(insertCharge(2))
      expect(await connection.commit(insertCharge(3))).toBe('committed')
      expect(await charges()).toEqual([1, 2, 3])
      expect(trips).toEqual(way === 'single' ? [1, 1, 1, 1, 1] : [2, 1, 2])
    })

    it('begins READ COMMITTED whatever the default is', async () => {
      const driver = driverOf(poolOf({ ...config, options: '-c default_transaction_isolation=serializable' }))
      const { connection, rows } = await driver.begin(own(`select current_setting('transaction_isolation') as level`))
      expect(rows).toEqual([{ level: 'read committed' }])
      await connection.rollback()
    })

    it('reads our own types by fixed rules, whatever parsers the client has', async () => {
      const types = { getTypeParser: () => () => 'theirs' }
      const driver = driverOf(poolOf({ ...config, types: types as unknown as pg.CustomTypesConfig }))
      const text = `select 1::int4 as i, 9007199254740993::int8 as l, true as b, 0.5::float8 as f, 'é'::text as t, null::int4 as n, false as no`
      const expected = [{ i: 1, l: '9007199254740993', b: true, f: 0.5, t: 'é', n: null, no: false }]
      expect(await driver.query(own(text))).toEqual(expected)
      expect(await driver.query({ name: 'types', text, values: [] })).toEqual(expected)
      expect(await driver.query({ name: 'types', text, values: [] })).toEqual(expected)
    })

    it('sends our own values: text of any length, numbers, booleans, null', async () => {
      const driver = driverOf(poolOf(config))
      const long = 'ü€😀'.repeat(40_000)
      const text = 'select $1::text as t, $2::int4 as i, $3::bool as b, $4::text as n, $5::float8 as f, $6::text as u'
      const [row] = await driver.query({ name: 'values', text, values: [long, 7, true, null, 1.5, undefined] })
      expect(row).toEqual({ t: long, i: 7, b: true, n: null, f: 1.5, u: null })
    })

    it('a fence that raises keeps COMMIT from committing; a fence by row count does not', async () => {
      const driver = driverOf(poolOf({ ...config, max: 1 }))
      const byCount = await driver.begin(insertCharge(1))
      await byCount.connection.commit(own('update records set token = 9 where id = 1 and token = 1'))
      expect(await charges()).toEqual([1])

      const raising = await driver.begin(insertCharge(2))
      const fence = own(
        'with u as (update records set token = 9 where id = 1 and token = 1 returning 1) select 1/count(*) from u',
      )
      await expect(raising.connection.commit(fence)).rejects.toMatchObject({ code: '22012' })
      expect(await charges()).toEqual([1])

      const next = await driver.begin(insertCharge(3))
      expect(await next.connection.commit()).toBe('committed')
      expect(await charges()).toEqual([1, 3])
    })

    it('COMMIT of an aborted transaction is rolledBack', async () => {
      const driver = driverOf(poolOf({ ...config, max: 1 }))
      const { connection } = await driver.begin(insertCharge(1))
      const { tx } = connection.revocable()
      await expect(tx.query('insert into charges values (1)')).rejects.toMatchObject({ code: '23505' })
      expect(await connection.commit()).toBe('rolledBack')
      expect(await charges()).toEqual([])
    })

    it('an error of COMMIT itself is told apart from one of the last statement, and the connection lives on', async () => {
      const driver = driverOf(poolOf({ ...config, max: 1 }))
      const [before] = await driver.query(PID)
      const { connection } = await driver.begin(own('insert into late values (1), (1)'))
      const refused = { name: 'CommitRefused', cause: { code: '23505' } }
      await expect(connection.commit(insertCharge(1))).rejects.toMatchObject(refused)
      expect(await charges()).toEqual([])
      expect(await driver.query(PID)).toEqual([before])
    })

    it('a failed begin leaves no connection behind', async () => {
      const pool = poolOf({ ...config, max: 1 })
      const driver = driverOf(pool)
      await expect(driver.begin(own('select 1/0'))).rejects.toMatchObject({ code: '22012' })
      expect(pool.idleCount).toBe(1)
      const { connection } = await driver.begin(insertCharge(1))
      await connection.rollback()
      await connection.rollback()
      expect(await charges()).toEqual([])
      expect(pool.idleCount).toBe(1)
      const client = await pool.connect()
      expect(client.listenerCount('error')).toBe(0)
      client.release()
    })

    it('a statement that failed on its first use is usable again on the same connection', async () => {
      const driver = driverOf(poolOf({ ...config, max: 1 }))
      await ask('insert into charges values (1)')
      const failing = await driver.begin(own('select 1'))
      await expect(failing.connection.commit(insertCharge(1))).rejects.toMatchObject({ code: '23505' })
      await expect(driver.query({ ...insertCharge(1) })).rejects.toMatchObject({ code: '23505' })
      await driver.query(insertCharge(2))
      await driver.query(insertCharge(3))
      expect(driver.prepared).toBe(true)
      expect(await charges()).toEqual([1, 2, 3])
    })

    it('a statement whose columns changed is prepared anew', async () => {
      const driver = driverOf(poolOf({ ...config, max: 1 }))
      const all: PgStatement = { name: 'all', text: 'select * from charges', values: [] }
      await driver.query(insertCharge(1))
      expect(await driver.query(all)).toEqual([{ id: 1, note: null }])
      await ask('alter table charges drop column note; alter table charges add column flag bool default true')
      expect(await driver.query(all)).toEqual([{ id: 1, flag: true }])
    })

    it('42P05: names that somebody else has taken on the server are given up', async () => {
      const trips: number[] = []
      const pool = poolOf({ ...config, max: 1 })
      const driver = driverOf(pool, trips)
      await pool.query('prepare insert_charge as select 1')
      const { connection, rows } = await driver.begin(insertCharge(1))
      expect(rows).toEqual([{ id: 1 }])
      expect(driver.prepared).toBe(false)
      expect(await connection.commit(insertCharge(2))).toBe('committed')
      expect(await charges()).toEqual([1, 2])
      expect(trips).toEqual(way === 'single' ? [1, 1, 1, 1, 1, 1, 1] : [2, 1, 2, 2])
    })

    it('26000: names that the server lost are given up', async () => {
      const pool = poolOf({ ...config, max: 1 })
      const driver = driverOf(pool)
      await (await driver.begin(insertCharge(1))).connection.commit()
      await pool.query('deallocate all')
      const { connection } = await driver.begin(insertCharge(2))
      expect(driver.prepared).toBe(false)
      expect(await connection.commit()).toBe('committed')

      const second = driverOf(pool)
      await pool.query('deallocate all')
      expect(await second.query({ ...PID })).toHaveLength(1)

      // Were BEGIN lost alone, the statement behind it would commit by itself.
      const third = driverOf(pool)
      await third.query(own('deallocate all'))
      await (await third.begin(own('insert into charges values (3)'))).connection.rollback()
      expect(await charges()).toEqual([1, 2])
      expect(pool.totalCount).toBe(1)
    })

    it('26000 in the middle of a transaction is not run again', async () => {
      const pool = poolOf({ ...config, max: 1 })
      const driver = driverOf(pool)
      await driver.query(insertCharge(1))
      const { connection } = await driver.begin(own('insert into charges values (2)'))
      await connection.query(own('deallocate all'))
      await expect(connection.commit(insertCharge(3))).rejects.toMatchObject({ code: '26000' })
      expect(driver.prepared).toBe(false)
      expect(await charges()).toEqual([1])
      await driver.query(insertCharge(3))
      expect(await charges()).toEqual([1, 3])
      expect(pool.totalCount).toBe(1)
    })

    it('26000 of COMMIT itself: it did not run', async () => {
      const pool = poolOf({ ...config, max: 1 })
      const driver = driverOf(pool)
      await (await driver.begin(insertCharge(1))).connection.commit()
      const { connection } = await driver.begin(insertCharge(2))
      await connection.query(own('deallocate all'))
      // Only where COMMIT was prepared can it be lost.
      const outcome = await connection.commit().catch((error: { code: string }) => error.code)
      expect(outcome).toBe(way === 'grouped' ? '26000' : 'committed')
      expect(await charges()).toEqual(way === 'grouped' ? [1] : [1, 2])
      await driver.query(insertCharge(3))
      expect(pool.totalCount).toBe(1)
    })

    describe('a killed backend', () => {
      it('before begin: the pool had not noticed', async () => {
        const pool = poolOf({ ...config, max: 1 })
        const driver = driverOf(pool)
        const [row] = await driver.query(PID)
        await kill(row?.['pid'])
        await driver.begin(insertCharge(1)).then(
          ({ connection }) => connection.rollback(),
          () => {},
        )
        expect(await charges()).toEqual([])
        await expectUsable(driver, pool)
      })

      it('during the first statement', async () => {
        const pool = poolOf({ ...config, max: 1 })
        const driver = driverOf(pool)
        const began = driver.begin(own('select pg_sleep(20)::text'))
        const [failure] = await Promise.all([began.catch((error: unknown) => error), killWhile('PgSleep')])
        expect(failure).toMatchObject({ code: '57P01' })
        await expectUsable(driver, pool)
      })

      it('between statements: query, commit and rollback find it out', async () => {
        const pool = poolOf({ ...config, max: 3 })
        const driver = driverOf(pool)
        const open = async (): Promise<PgConnection<Tx>> => {
          const { connection, rows } = await driver.begin(PID)
          const pid = rows[0]?.['pid']
          await kill(pid)
          // Its last words are on the wire when the backend is gone; one more turn, and they are read.
          while ((await ask(`select 1 from pg_stat_activity where pid = ${String(pid)}`)).length > 0) await sleep(10)
          await sleep(100)
          return connection
        }
        const first = await open()
        await expect(first.query(insertCharge(1))).rejects.toMatchObject({ code: '57P01' })
        await first.rollback()
        // COMMIT was never written, so its outcome is known.
        await expect((await open()).commit(insertCharge(1))).rejects.toMatchObject({ code: '57P01' })
        await expect((await open()).commit()).rejects.toMatchObject({ code: '57P01' })
        await (await open()).rollback()
        await expectUsable(driver, pool)
      })

      it('during the statement in front of COMMIT: the outcome is known', async () => {
        const pool = poolOf({ ...config, max: 1 })
        const driver = driverOf(pool)
        const { connection } = await driver.begin(insertCharge(1))
        const committing = connection.commit(own('select pg_sleep(20)::text')).catch((error: unknown) => error)
        await killWhile('PgSleep')
        expect(await committing).toMatchObject({ code: '57P01' })
        await expectUsable(driver, pool)
      })

      it('during COMMIT: nobody knows', async () => {
        await ask(`
          create or replace function slow() returns trigger language plpgsql as $$ begin perform pg_sleep(20); return null; end $$;
          create constraint trigger slow after insert on charges deferrable initially deferred for each row execute function slow()`)
        const pool = poolOf({ ...config, max: 1 })
        const driver = driverOf(pool)
        const { connection } = await driver.begin(insertCharge(1))
        const committing = connection.commit(own('select 1')).catch((error: unknown) => error)
        await killWhile('PgSleep')
        expect(await committing).toBeInstanceOf(CommitLost)
        await ask('drop trigger slow on charges')
        await expectUsable(driver, pool)
      })
    })

    it('the reply to COMMIT lost on the way: CommitLost, and the rows are there', async () => {
      const proxy = await proxyTo(database.url)
      try {
        const driver = driverOf(poolOf({ ...config, max: 1, connectionString: proxy.url }))
        const { connection } = await driver.begin(insertCharge(1))
        proxy.cutAtNext((bytes) => bytes.includes('COMMIT\0'))
        await expect(connection.commit(insertCharge(2))).rejects.toBeInstanceOf(CommitLost)
        expect(await charges()).toEqual([1, 2])
        expect(await driver.query(PID)).toHaveLength(1)
      } finally {
        proxy.close()
      }
    })

    it('pipeline: rows and values exactly as pg’s own', async () => {
      const pool = poolOf({ ...config, max: 1 })
      const driver = driverOf(pool)
      const text =
        'select $1::timestamptz as at, $2::jsonb as doc, $3::int8 as big, $4::text[] as list, $5::bytea as raw'
      const values = [
        new Date('2026-01-02T03:04:05.678Z'),
        { a: [1, '"'] },
        2n ** 60n,
        ['a', 'b"\\', null],
        Buffer.of(0, 255),
      ]
      const { rows } = await pool.query(text, values)
      const { connection } = await driver.begin(own('select 1'))
      const outcome = await connection.pipeline([
        { name: '', text, values },
        { name: '', text, values },
        { name: '', text: 'insert into charges values ($1)', values: [1] },
        { name: '', text: 'insert into charges values ($1)', values: [2] },
        { name: '', text: 'select 1.5::numeric as n, now()::date is not null as b', values: [] },
        { name: '', text, values },
      ])
      expect(outcome).toEqual({ kind: 'done', rows: [rows, rows, [], [], [{ n: '1.5', b: true }], rows] })
      expect(await connection.pipeline([])).toEqual({ kind: 'done', rows: [] })
      expect(await connection.commit()).toBe('committed')
      expect(await charges()).toEqual([1, 2])
    })

    it('pipeline: the first failure ends it, and is named', async () => {
      const driver = driverOf(poolOf({ ...config, max: 1 }))
      const { connection } = await driver.begin(own('select 1'))
      const insert = (id: number) => ({ name: '', text: 'insert into charges values ($1)', values: [id] })
      const outcome = await connection.pipeline([insert(1), insert(2), insert(2), insert(3)])
      expect(outcome).toMatchObject({ kind: 'failed', index: 2, error: { code: '23505' } })
      expect(await connection.commit()).toBe('rolledBack')
      expect(await charges()).toEqual([])
    })

    it('pipeline: a value that cannot be sent fails its statement', async () => {
      const driver = driverOf(poolOf({ ...config, max: 1 }))
      const { connection } = await driver.begin(own('select 1'))
      const poison = {
        toPostgres(): never {
          throw new Error('no')
        },
      }
      const outcome = await connection.pipeline([
        { name: '', text: 'insert into charges values (1)', values: [] },
        { name: '', text: 'insert into charges values ($1)', values: [poison] },
      ])
      expect(outcome).toMatchObject({ kind: 'failed', index: 1, error: { message: 'no' } })
      await connection.rollback()
      expect(await charges()).toEqual([])
      await driver.query(insertCharge(1))
    })

    it('what the handler did not await runs before COMMIT', async () => {
      const driver = driverOf(poolOf({ ...config, max: 1 }))
      const { connection } = await driver.begin(own('select 1'))
      const handle = connection.revocable()
      const stray = [1, 2].map((id) => handle.tx.query('insert into charges values ($1)', [id]))
      handle.revoke()
      expect(await connection.commit(insertCharge(3))).toBe('committed')
      await Promise.all(stray)
      expect(await charges()).toEqual([1, 2, 3])
    })

    it('a name that the handler took never lets COMMIT through without our statement', async () => {
      const driver = driverOf(poolOf({ ...config, max: 1 }))
      const { connection } = await driver.begin(own('insert into charges values (1)'))
      await connection.revocable().tx.query({ name: 'insert_charge', text: 'select 1', values: [] })
      const outcome = await connection.commit(insertCharge(2)).catch(() => 'failed')
      expect(await charges()).toEqual(outcome === 'committed' ? [1, 2] : [])
      await driver.query(insertCharge(3))
      await driver.query(insertCharge(4))
      expect((await charges()).slice(-2)).toEqual([3, 4])
    })

    it.each([['alone'], ['with a statement']])(
      'COMMIT %s after the server’s deadline: the outcome is known',
      async (how) => {
        const driver = driverOf(poolOf({ ...config, max: 1 }))
        const { connection } = await driver.begin(insertCharge(1))
        await connection.query(own('set local idle_in_transaction_session_timeout = 50'))
        // A paused process: the server's last word waits unread while COMMIT is written.
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500)
        await expect(connection.commit(how === 'alone' ? undefined : insertCharge(2))).rejects.toMatchObject({
          code: '25P03',
        })
        expect(await charges()).toEqual([])
      },
    )

    async function expectUsable(driver: PgPoolDriver<Tx>, pool: pg.Pool): Promise<void> {
      const { connection } = await driver.begin(insertCharge(77))
      expect(await connection.commit()).toBe('committed')
      expect(await charges()).toEqual([77])
      expect(pool.waitingCount).toBe(0)
      expect(pool.idleCount).toBe(pool.totalCount)
    }
  })

  describe('the handle', () => {
    it('after its end reaches nothing: neither insert nor commit', async () => {
      const driver = driverOf(poolOf({ max: 1 }))
      const first = await driver.begin(insertCharge(1))
      const leaked = first.connection.revocable()
      await first.connection.commit()
      leaked.revoke()

      const second = await driver.begin(insertCharge(2))
      const closed = { code: 'ONCE_TX_CLOSED' }
      await expect(leaked.tx.query('insert into charges values (3)')).rejects.toMatchObject(closed)
      await expect(leaked.tx.query('commit')).rejects.toMatchObject(closed)
      const error = await new Promise((resolve) => leaked.tx.query('commit', resolve))
      expect(error).toMatchObject(closed)
      const submittable = { submit: () => {} }
      expect(() => leaked.tx.query(submittable)).toThrow(expect.objectContaining(closed) as Error)
      expect(() => leaked.tx.on('notice', () => {})).toThrow(expect.objectContaining(closed) as Error)
      expect(() => (leaked.tx as pg.PoolClient).connection).toThrow(expect.objectContaining(closed) as Error)
      expect(() => driver.join(leaked.tx)).toThrow(expect.objectContaining(closed) as Error)
      await second.connection.rollback()
      expect(await charges()).toEqual([1])
    })

    it('the transaction itself takes nothing after its end', async () => {
      const driver = driverOf(poolOf({ max: 1 }))
      const { connection } = await driver.begin(insertCharge(1))
      await connection.commit()
      await expect(connection.query(insertCharge(2))).rejects.toMatchObject({ code: 'ONCE_TX_CLOSED' })
      expect(() => connection.revocable()).toThrow('ONCE_TX_CLOSED')
    })

    it('refuses to end the transaction, and allows savepoints', async () => {
      const driver = driverOf(poolOf({ max: 1 }))
      const { connection } = await driver.begin(insertCharge(1))
      const { tx } = connection.revocable()
      const taken = { code: 'ONCE_TX_TAKEN' }
      await expect(tx.query('commit')).rejects.toMatchObject(taken)
      await expect(tx.query({ text: ' /* done */ ROLLBACK' })).rejects.toMatchObject(taken)
      expect(await new Promise((resolve) => tx.query('begin', resolve))).toMatchObject(taken)
      for (const name of ['release', 'connect', 'end'] as const) {
        expect(() => void (tx as pg.PoolClient)[name]()).toThrow('ONCE_TX_TAKEN')
      }
      await tx.query('savepoint a')
      await tx.query('insert into charges values (2)')
      await tx.query('rollback to a')
      expect(await connection.commit()).toBe('committed')
      expect(await charges()).toEqual([1])
    })

    it('is a client in every other respect', async () => {
      const driver = driverOf(poolOf({ max: 1 }))
      const { connection } = await driver.begin(own('select 1'))
      const { tx } = connection.revocable()
      expect(tx).toBeInstanceOf(pg.Client)
      expect(tx.escapeLiteral("it's")).toBe("'it''s'")
      expect((tx as unknown as { processID: number }).processID).toBeGreaterThan(0)
      const notices: unknown[] = []
      const onNotice = (notice: { message?: string | undefined }): void => void notices.push(notice.message)
      expect(tx.on('notice', onNotice)).toBe(tx)
      await tx.query(`do $$ begin raise notice 'hello'; end $$`)
      tx.removeListener('notice', onNotice)
      await tx.query(`do $$ begin raise notice 'again'; end $$`)
      expect(notices).toEqual(['hello'])
      const byCallback = await new Promise((resolve) =>
        tx.query('select $1::int as n', [1], (_error, result) => resolve(result.rows)),
      )
      expect(byCallback).toEqual([{ n: 1 }])
      expect((await drizzle(tx as pg.PoolClient).execute(drizzleSql`select 2 as n`)).rows).toEqual([{ n: 2 }])
      await connection.rollback()
    })
  })

  describe('connections', () => {
    it('a pool that was closed', async () => {
      const pool = poolOf()
      const driver = driverOf(pool)
      await pool.end()
      const unavailable = { code: 'ONCE_STORE_UNAVAILABLE', message: 'ONCE_STORE_UNAVAILABLE the pool was closed' }
      await expect(driver.begin(insertCharge(1))).rejects.toMatchObject(unavailable)
      await expect(driver.query(insertCharge(1))).rejects.toMatchObject(unavailable)
    })

    it('a pool that has none left in time', async () => {
      const driver = driverOf(poolOf({ max: 1, connectionTimeoutMillis: 1_000 }))
      const { connection } = await driver.begin(own('select 1'))
      await expect(driver.query(own('select 1'))).rejects.toMatchObject({
        code: 'ONCE_STORE_UNAVAILABLE',
        message: expect.stringContaining('within 1000 ms: all 1 are in use') as string,
      })
      await connection.rollback()
    })

    it('a server that is not there', async () => {
      const driver = driverOf(poolOf({ connectionString: 'postgres://nobody@127.0.0.1:1/none' }))
      const unavailable = { code: 'ONCE_STORE_UNAVAILABLE' }
      await expect(driver.query(own('select 1'))).rejects.toMatchObject(unavailable)
      await expect(driver.aside(own('select 1'))).rejects.toMatchObject(unavailable)
    })

    it('a statement that runs into pg’s query_timeout does not go back to the pool', async () => {
      const pool = poolOf({ max: 1, query_timeout: 500 })
      const driver = driverOf(pool)
      await expect(driver.query(own('select pg_sleep(3)::text'))).rejects.toThrow('timeout')
      expect(pool.totalCount).toBe(0)
      const { connection } = await driver.begin(insertCharge(1))
      await expect(connection.commit(own('select pg_sleep(3)::text'))).rejects.toBeInstanceOf(CommitLost)
      expect(await driver.query(PID)).toHaveLength(1)
    })

    it('leaves none of the timers of pg’s query_timeout behind', async () => {
      const timers = (): number => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
      const driver = driverOf(poolOf({ max: 1, query_timeout: 60_000, idleTimeoutMillis: 0 }))
      await driver.query(PID)
      const before = timers()
      await driver.query(PID)
      await driver.query(own('select 1/0')).catch(() => {})
      expect(timers()).toBe(before)
      expect(await driver.query(PID)).toHaveLength(1)
    })

    it('a rollback behind something that never ends is had by ending the connection', async () => {
      const pool = poolOf({ max: 1 })
      const driver = driverOf(pool)
      const { connection } = await driver.begin(insertCharge(1))
      connection.revocable().tx.query({ submit: () => {}, handleError: () => {} } as pg.Submittable)
      await connection.rollback()
      expect(await charges()).toEqual([])
      expect(await driver.query(PID)).toHaveLength(1)
    })

    it('join uses the user’s transaction and never ends it', async () => {
      const pool = poolOf({ max: 1 })
      const driver = driverOf(pool)
      const client = await pool.connect()
      await client.query('begin')
      const joined = driver.join(client)
      await joined.query(insertCharge(1))
      expect(await joined.pipeline([insertCharge(2)])).toEqual({ kind: 'done', rows: [[{ id: 2 }]] })
      expect(joined.tx).toBe(client)
      await expect(joined.commit()).rejects.toMatchObject({ code: 'ONCE_INVARIANT' })
      await expect(joined.rollback()).rejects.toMatchObject({ code: 'ONCE_INVARIANT' })
      expect(client.listenerCount('error')).toBe(0)
      await client.query('commit')
      client.release()
      expect(await charges()).toEqual([1, 2])

      const outer = await driver.begin(insertCharge(3))
      const inner = driver.join(outer.connection.revocable().tx)
      await inner.query(insertCharge(4))
      await outer.connection.rollback()
      expect(await charges()).toEqual([1, 2])
    })
  })

  describe('aside', () => {
    it('does not wait for the pool, is opened once, and comes back after a failure', async () => {
      const driver = driverOf(poolOf({ max: 1 }))
      const { connection, rows } = await driver.begin(PID)
      const [[first], [second]] = await Promise.all([driver.aside(PID), driver.aside(PID)])
      expect(first).toEqual(second)
      expect(first).not.toEqual(rows[0])
      await kill(first?.['pid'])
      await sleep(50)
      const [third] = await driver.aside(PID)
      expect(third).not.toEqual(first)
      await expect(driver.aside(own('select 1/0'))).rejects.toMatchObject({ code: '22012' })
      expect(await driver.aside(PID)).toEqual([third])
      await connection.rollback()
      await driver.close()
      await expect(driver.aside(PID)).rejects.toMatchObject({ code: 'ONCE_CLOSED' })
      expect(await ask(`select 1 from pg_stat_activity where pid = ${Number(third?.['pid'])}`)).toEqual([])
    })

    it.each(Object.entries(WAYS))('works with %s statements', async (_, config) => {
      const driver = driverOf(poolOf(config))
      const first = await driver.aside(PID)
      expect(await driver.aside(PID)).toEqual(first)
    })

    it('does not keep the process alive', async () => {
      const script = `
        import pg from 'pg'
        import { pgDriver } from './src/store/postgres/pg.ts'
        const driver = pgDriver(new pg.Pool({ connectionString: process.env.TEST_URL }))
        const [row] = await driver.aside({ name: 'one', text: 'select 1::int4 as one', values: [] })
        console.log('answered', row.one)`
      const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '--eval', script], {
        env: { ...process.env, TEST_URL: database.url },
        stdio: ['ignore', 'pipe', 'inherit'],
        timeout: 20_000,
      })
      let out = ''
      child.stdout.on('data', (chunk) => (out += String(chunk)))
      const [code] = await once(child, 'exit')
      expect({ code, out }).toEqual({ code: 0, out: 'answered 1\n' })
    })
  })

  describe('watch', () => {
    it('sees everybody on this pool but us', async () => {
      const pool = poolOf({ max: 1 })
      const other = poolOf()
      const driver = driverOf(pool)
      const seen: string[] = []
      const stop = driver.watch?.bypass(({ words }) => seen.push(words))
      await driver.query(own('select 1'))
      await (await driver.begin(own('select 1'))).connection.rollback()
      await driverOf(pool).query(own('select 1'))
      await driver.aside(own('select 1'))
      await other.query('select 0')
      expect(seen).toEqual([])

      await pool.query('  insert into charges (id)\n values ($1)', [1])
      await pool.query({ text: 'select 1' })
      await new Promise((resolve) => pool.query('select 2', resolve))
      const client = await pool.connect()
      client.release()
      await drizzle(pool).execute(drizzleSql`select 3`)
      const kysely = new Kysely<{ charges: { id: number } }>({ dialect: new PostgresDialect({ pool }) })
      await kysely.selectFrom('charges').select('id').execute()
      expect(seen).toEqual([
        'insert into charges (id) values ($1)',
        'select 1',
        'select 2',
        'connect',
        'select 3',
        'connect',
      ])

      stop?.()
      expect(Object.hasOwn(pool, 'query') || Object.hasOwn(pool, 'connect')).toBe(false)
      await pool.query('select 4')
      expect(seen).toHaveLength(6)
    })

    it('tells when the pool is full, to every watcher', async () => {
      const pool = poolOf({ max: 1, connectionTimeoutMillis: 1_000 })
      const driver = driverOf(pool)
      const calls: unknown[] = []
      const stops = [1, 2].map((watcher) => driver.watch?.bypass((call) => calls.push({ watcher, ...call })))
      const { connection } = await driver.begin(own('select 1'))
      await pool.query('select 1').catch(() => {})
      await connection.rollback()
      stops[0]?.()
      stops[0]?.()
      await pool.query('select 2')
      stops[1]?.()
      expect(calls).toEqual([
        { watcher: 1, words: 'select 1', starved: true, total: 1 },
        { watcher: 2, words: 'select 1', starved: true, total: 1 },
        { watcher: 2, words: 'select 2', starved: false, total: 1 },
      ])
      expect(Object.hasOwn(pool, 'query')).toBe(false)
    })
  })
})

function own(text: string): PgStatement {
  return { name: '', text, values: [] }
}

function insertCharge(id: number): PgStatement {
  return { name: 'insert_charge', text: 'insert into charges (id) values ($1) returning id', values: [id] }
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

/** Between the client and the server: can lose what the server says. */
async function proxyTo(
  url: string,
): Promise<{ readonly url: string; cutAtNext(match: (bytes: Buffer) => boolean): void; close(): void }> {
  const target = new URL(url)
  const sockets = new Set<Socket>()
  let cut: ((bytes: Buffer) => boolean) | null = null
  const server = createServer((socket) => {
    const upstream = connect(Number(target.port), target.hostname)
    for (const side of [socket, upstream]) {
      sockets.add(side)
      side.on('error', () => {})
      side.on('close', () => {
        socket.destroy()
        upstream.destroy()
      })
    }
    socket.on('data', (bytes) => upstream.write(bytes))
    upstream.on('data', (bytes) => {
      if (cut?.(bytes)) {
        cut = null
        socket.destroy()
      } else socket.write(bytes)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const through = new URL(url)
  through.hostname = '127.0.0.1'
  through.port = String((server.address() as AddressInfo).port)
  return {
    url: through.href,
    cutAtNext(match) {
      cut = match
    },
    close() {
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
}
