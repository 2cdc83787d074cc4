import { afterEach, beforeEach, expect, it } from 'vitest'
import pg from 'pg'
import postgres from 'postgres'
import { effectivelyOnce, inProcessSink, type Signal } from '../../src/index.ts'
import { pgStore } from '../../src/entry/pg.ts'
import { postgresJsStore } from '../../src/entry/postgres.ts'
import { sqliteStore } from '../../src/entry/sqlite.ts'
import { describePostgres, freshDatabase, type FreshDatabase } from '../support/postgres.ts'
import { events, until } from './world.ts'

describePostgres('listen', () => {
  let database: FreshDatabase
  let pools: pg.Pool[]

  beforeEach(async () => {
    database = await freshDatabase()
    pools = [0, 1].map(() => new pg.Pool({ connectionString: database.url, max: 4 }))
    for (const pool of pools) pool.on('error', () => {})
  })
  afterEach(async () => {
    for (const pool of pools) await pool.end()
    await database.drop()
  })

  const options = { namespace: 'listen', events, guard: 'off', sweep: false } as const

  /** How long an event waits that another instance publishes after a quiet time. */
  async function waits(listen: boolean, rounds: number): Promise<number[]> {
    const signals: Signal[] = []
    const [sending, publishing] = [0, 1].map((i) =>
      effectivelyOnce({ ...options, store: pgStore(pools[i] as pg.Pool), listen, observe: (s) => signals.push(s) }),
    )
    await sending!.migrate()
    let at = 0
    const relay = await sending!.relay({ to: inProcessSink(() => void (at = performance.now())) }).start()
    const found: number[] = []
    for (let i = 0; i < rounds; i++) {
      await new Promise((resolve) => setTimeout(resolve, 1_300))
      at = 0
      await publishing!.run({ scope: 's', key: `k${listen}${i}`, input: null }, ({ publish }) =>
        publish('step.made', { aggregate: 'a', n: i }),
      )
      const committed = performance.now()
      await until(() => at > 0)
      found.push(at - committed)
    }
    await relay.stop()
    await sending!.close()
    await publishing!.close()
    expect(signals.filter(({ kind }) => kind === 'troubled')).toEqual([])
    return found
  }

  it('an event of another process does not wait for the next look', async () => {
    for (const wait of await waits(true, 2)) expect(wait).toBeLessThan(500)
  })

  it('listens again after its connection was cut', async () => {
    const signals: Signal[] = []
    const once = effectivelyOnce({
      ...options,
      store: pgStore(pools[0] as pg.Pool),
      listen: true,
      observe: (signal) => signals.push(signal),
    })
    await once.migrate()
    const relay = await once.relay({ to: inProcessSink(() => {}) }).start()
    const listening = async (): Promise<number> =>
      (
        await pools[1]!.query(
          `select pid from pg_stat_activity where query like 'listen %' and datname = current_database()`,
        )
      ).rowCount ?? 0
    await until(async () => (await listening()) === 1)
    await pools[1]!.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where query like 'listen %' and datname = current_database()`,
    )
    await until(() => signals.some(({ kind }) => kind === 'troubled'))
    await until(async () => (await listening()) === 1)
    await relay.stop()
    await once.close()
    await until(async () => (await listening()) === 0)
    expect(signals.filter(({ kind }) => kind === 'troubled')).toHaveLength(1)
  })

  it('through postgres.js too; a store that cannot says so', async () => {
    const sql = postgres(database.url, { max: 4 })
    const [sending, publishing] = [0, 1].map(() =>
      effectivelyOnce({ ...options, store: postgresJsStore(sql), listen: true }),
    )
    await sending!.migrate()
    let seen = 0
    const relay = await sending!.relay({ to: inProcessSink(() => void seen++) }).start()
    await publishing!.run({ scope: 's', key: 'k', input: null }, ({ publish }) =>
      publish('step.made', { aggregate: 'a', n: 1 }),
    )
    await until(() => seen === 1)
    await relay.stop()
    await sending!.close()
    await sql.end()
    expect(() => effectivelyOnce({ ...options, store: sqliteStore({ file: ':memory:' }), listen: true })).toThrow(
      /ONCE_UNSUPPORTED/,
    )
  })
})
