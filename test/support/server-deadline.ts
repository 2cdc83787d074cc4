import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { pgStore, type PgTx } from '../../src/entry/pg.ts'
import type { SqlStore } from '../../src/store/store.ts'
import { later } from './charges.ts'
import { claimOf } from './claims.ts'
import type { Database } from './postgres.ts'

type PgStore = SqlStore<PgTx<pg.PoolClient>>

const DEADLINE_MS = 300
const PID = 'select pg_backend_pid() as pid'

/** Each way to open a transaction that somebody may stop in: answers with the pid of its backend. */
const OPENERS: Readonly<
  Record<string, (store: PgStore, key: string, deadlineMs: number) => Promise<PgTx<pg.PoolClient>>>
> = {
  'an operation': async (store, key, deadlineMs) =>
    (await store.begin({ claim: claimOf(key), deadlineMs })).session.revocable().tx,
  'the transaction of a leased one': async (store, _key, deadlineMs) =>
    (await store.open({ deadlineMs })).revocable().tx,
  'a message': async (store, key, deadlineMs) => {
    const item = { id: claimOf(key).id, lock: '1', source: 's', message: key, aggregate: null, previous: null }
    const { session } = await store.inbox.take({ consumer: 'c', items: [item], deadlineMs })
    return session.session.revocable().tx
  },
}

/** How a server ends a transaction at its deadline, beside limits of the database's owner. */
export function serverDeadline(database: Database): void {
  let admin: pg.Pool
  let version = 0
  const opened: pg.Pool[] = []

  beforeAll(async () => {
    admin = new pg.Pool({ connectionString: database.url, max: 1 })
    await pgStore(admin).schema.migrate()
    const { rows } = await admin.query<{ version: number }>(
      `select current_setting('server_version_num')::int4 as version`,
    )
    version = rows[0]!.version
  })
  afterEach(async () => {
    await admin.query(
      'select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
    )
    // What was stopped in is never given back, so nobody waits for it.
    for (const pool of opened.splice(0)) void pool.end()
  })
  afterAll(() => admin.end())

  const names = (): string[] => [
    'statement_timeout',
    'idle_in_transaction_session_timeout',
    ...(version >= 170_000 ? ['transaction_timeout'] : []),
  ]

  /** What ends a transaction at its deadline: one limit, or before version 17 one between statements and one for each. */
  const ends = (): string[] => (version >= 170_000 ? ['transaction_timeout'] : names())

  /** A store whose connections begin with these limits, as `alter database` or `alter role` would have them. */
  async function storeUnder(limit: string): Promise<PgStore> {
    for (const name of names()) {
      await admin.query(
        `do $$ begin execute format('alter database %I set ${name} = ''${limit}''', current_database()); end $$`,
      )
    }
    const pool = new pg.Pool({ connectionString: database.url, max: 2 })
    pool.on('error', () => {})
    pool.on('connect', (client) => client.on('error', () => {}))
    opened.push(pool)
    return pgStore(pool)
  }

  describe.each(Object.entries(OPENERS))('%s', (what, open) => {
    it('is ended at its own deadline, however long the limit that was there', async () => {
      const tx = await open(await storeUnder('10min'), `${what} stopped`, DEADLINE_MS)
      const { rows } = await tx.query<{ pid: number }>(PID)
      const alive = async (): Promise<boolean> =>
        (await admin.query('select 1 from pg_stat_activity where pid = $1', [rows[0]!.pid])).rows.length > 0
      const until = performance.now() + 10 * DEADLINE_MS
      while ((await alive()) && performance.now() < until) await later(20)
      expect(await alive()).toBe(false)
    })

    it('keeps a limit that is lower than its deadline', async () => {
      const tx = await open(await storeUnder('5s'), `${what} limited`, 60_000)
      for (const name of names()) {
        const { rows } = await tx.query<{ limit: string }>(`select current_setting('${name}') as limit`)
        expect([name, rows[0]!.limit]).toEqual([name, '5s'])
      }
    })

    it('has its own deadline where there is no limit', async () => {
      const tx = await open(await storeUnder('0'), `${what} alone`, 60_000)
      for (const name of ends()) {
        const { rows } = await tx.query<{ limit: string }>(`select current_setting('${name}') as limit`)
        expect([name, rows[0]!.limit]).toEqual([name, expect.stringMatching(/^(?:60200ms|1min)$/)])
      }
    })

    it('is ended in the middle of a statement', async () => {
      const tx = await open(await storeUnder('10min'), `${what} asleep`, DEADLINE_MS)
      const startedAt = performance.now()
      await expect(tx.query('select pg_sleep(5)')).rejects.toThrow()
      expect(performance.now() - startedAt).toBeLessThan(10 * DEADLINE_MS)
    })
  })

  it('of a batch is its own too, and a lower limit stays', async () => {
    const claims = [claimOf('batch a')]
    const statement = {
      sql: `select ${names()
        .map((name) => `current_setting('${name}') as ${name}`)
        .join(', ')}`,
      values: [],
    }
    for (const [limit, shown] of [
      ['10min', '60200ms'],
      ['5s', '5s'],
    ]) {
      const store = await storeUnder(limit!)
      const { session } = await store.batches.open({ claims, deadlineMs: 60_000, rerun: false })
      const effects = await session.effects([statement])
      const [row] = effects.kind === 'done' ? effects.rows[0]! : []
      expect(ends().map((name) => row![name])).toEqual(ends().map(() => shown))
      await session.rollback()
    }
    const store = await storeUnder('10min')
    const { session } = await store.batches.open({ claims, deadlineMs: DEADLINE_MS, rerun: false })
    const outcome = await session.effects([{ sql: 'select pg_sleep(5)::text as slept', values: [] }])
    expect(outcome).toMatchObject({ kind: 'ended', index: 0, late: true, error: { code: 'ONCE_DEADLINE' } })
    await session.rollback()
  })
}
