import pg from 'pg'
import { afterEach, describe, expect, it } from 'vitest'
import { queryThePool } from '../../test/support/guard-mistakes.ts'
import { openShop, type Shop } from '../../test/support/guard-shop.ts'
import { witness } from '../../test/support/guard-witness.ts'
import { describePostgres } from '../../test/support/postgres.ts'
import { final } from '../operation/final.ts'
import { effectivelyOnce } from '../once/once.ts'
import { pgStore } from '../store/postgres/pg.ts'
import { sqliteStore } from '../store/sqlite/sqlite.ts'
import type { Session } from '../store/store.ts'
import { WrittenCounter } from './written.ts'

const NOTHING = {
  code: 'ONCE_NOTHING_WRITTEN',
  line: 'charge completed without writing a row through tx or publishing an event. If it has an effect, use tx',
}

let keys = 0
const operation = () => ({ scope: 'global', key: `key-${++keys}`, input: keys })

describePostgres('rows written on PostgreSQL', (database) => {
  let shop: Shop
  afterEach(() => shop.close())

  it.each(['warn', 'throw'] as const)('none at all is a warning, once, in mode %s', async (guard) => {
    shop = await openShop(database.url, { guard })
    for (let i = 0; i < 2; i++) {
      await shop.once.run(operation(), async function charge({ tx }) {
        await tx.query('select * from charges')
      })
    }
    expect(await shop.warnings()).toEqual([NOTHING])
    expect(shop.signals).toEqual([NOTHING])
  })

  it('a row, an event, a refusal or a failure is enough', async () => {
    shop = await openShop(database.url, {}, { max: 1 })
    const { once, warnings, charges } = shop
    const statements = ['insert into charges values (1)', 'update charges set id = 2', 'delete from charges']
    for (const statement of statements) {
      await once.run(operation(), async function charge({ tx }) {
        await tx.query(statement)
      })
    }
    await once.run(operation(), async function charge({ publish }) {
      await publish('charge.made', { id: 1 })
    })
    const refused = once.run(operation(), async function charge() {
      throw final({ status: 402 })
    })
    await expect(refused).rejects.toMatchObject({ status: 402 })
    const failed = once.run(operation(), async function charge() {
      throw new Error('no')
    })
    await expect(failed).rejects.toThrow('no')
    expect(await warnings()).toEqual([])
    // Counts of the operations before, on the same connection, are not taken for this one's.
    await once.run(operation(), async function charge() {})
    expect(await warnings()).toEqual([NOTHING])
    expect(await charges()).toEqual([])
  })

  it('does not change how a failed transaction ends', async () => {
    const ends: unknown[] = []
    for (const guard of ['off', 'throw'] as const) {
      shop = await openShop(database.url, { guard })
      const run = shop.once.run(operation(), async ({ tx }) => {
        await tx.query('select 1/0').catch(() => {})
      })
      ends.push(await run.catch((error: unknown) => (error as { code: unknown }).code))
      if (guard === 'off') await shop.close()
    }
    expect(ends[0]).toBe(ends[1])
    expect(ends[0]).toBe('ONCE_ROLLED_BACK')
  })

  it('a count that the database refuses does no harm', async () => {
    shop = await openShop(database.url)
    const role = `teller_${process.pid}`
    await shop.pool.query(`
      create role ${role};
      grant all on charges to ${role};
      grant usage on schema effectively_once to ${role};
      grant all on all tables in schema effectively_once to ${role};
      revoke select on pg_stat_xact_user_tables from public`)
    const pool = new pg.Pool({ connectionString: database.url, options: `-c role=${role}` })
    const once = effectivelyOnce({ namespace: 'shop', store: pgStore(pool), sweep: false, observe: shop.observe })
    for (const id of [1, 2]) {
      await once.run(operation(), async function charge({ tx }) {
        await tx.query('insert into charges values ($1)', [id])
      })
    }
    await once.run(operation(), async function charge() {})
    expect(await shop.charges()).toEqual([1, 2])
    expect(await shop.warnings()).toEqual([])
    await once.run(operation(), async function charge() {
      await queryThePool(pool, 3)
    })
    expect(await shop.warnings()).toMatchObject([{ code: 'ONCE_TX_BYPASSED' }])
    await once.close()
    await pool.end()
    await shop.pool.query(`drop owned by ${role}; drop role ${role}`)
  })
})

describe('rows written on SQLite', () => {
  it('are counted by the connection', async () => {
    const heard = witness()
    const store = sqliteStore({ file: ':memory:' })
    const once = effectivelyOnce({ namespace: 'shop', store, sweep: false, observe: heard.observe })
    await once.migrate()
    await store.transaction((tx) => tx.query('create table charges (id integer primary key)'))
    await once.run(operation(), async function charge({ tx }) {
      await tx.query('insert into charges values (1)')
    })
    expect(heard.signals).toEqual([])
    await once.run(operation(), async function charge({ tx }) {
      await tx.query('select * from charges')
    })
    expect(await heard.warnings()).toEqual([NOTHING])
    heard.stop()
    await once.close()
  })
})

describe('a count', () => {
  function sessionOf(written: (() => Promise<number | null>) | undefined) {
    const calls: string[] = []
    const session = {
      savepoint: async () => {
        calls.push('savepoint')
        return { release: async () => void calls.push('release'), rollback: async () => void calls.push('rollback') }
      },
      ...(written && { written }),
    } as unknown as Session<unknown>
    return { calls, session }
  }

  it('stands behind a savepoint until it has worked once', async () => {
    const { session, calls } = sessionOf(async () => 3)
    const counter = new WrittenCounter()
    expect([await counter.read(session), await counter.read(session)]).toEqual([3, 3])
    expect(calls).toEqual(['savepoint', 'release'])
  })

  it('that fails is undone and not tried again', async () => {
    let tries = 0
    const { session, calls } = sessionOf(async () => {
      tries++
      throw new Error('permission denied')
    })
    const counter = new WrittenCounter()
    expect([await counter.read(session), await counter.read(session)]).toEqual([null, null])
    expect({ tries, calls }).toEqual({ tries: 1, calls: ['savepoint', 'rollback'] })
  })

  it('is unknown where the store has none', async () => {
    const counter = new WrittenCounter()
    expect(await counter.read(sessionOf(undefined).session)).toBe(null)
    expect(await counter.read(sessionOf(async () => null).session)).toBe(null)
    expect(await counter.read({ written: 1, savepoint: () => Promise.reject(new Error('gone')) } as never)).toBe(null)
  })
})
