import pg from 'pg'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { effectivelyOnce, event, inProcessSink, type Signal } from '../../src/index.ts'
import { pgStore } from '../../src/store/postgres/pg.ts'
import type { Swept, SweepParams } from '../../src/store/store.ts'
import { describePostgres } from '../support/postgres.ts'

const DAY_MS = 86_400_000
/** Three parts of 512 blocks, and a bit. */
const RECORDS = 120_000

const FILL = `insert into effectively_once.record (id, scope, fp, fp_version, state, attempt, token, life, expires_at, forget_at)
  select md5('r' || n)::uuid, md5('s')::uuid, md5('f')::uuid, 1, 2, 1, n, n, now() + interval '1 day', now() + interval '8 days'
    from generate_series(1, ${RECORDS}) n`
const STRAY = `insert into effectively_once.answer (token, id, day, status, kept, body)
  select n, md5('a' || n)::uuid, (clock_timestamp() at time zone 'utc')::date + $1::int4, 200, true, convert_to(repeat('x', $3::int4), 'UTF8')
    from generate_series(1, $2::int4) n`

interface Lab {
  readonly pool: pg.Pool
  one<T>(sql: string, values?: unknown[]): Promise<T>
  /** By a store of its own: to the others it is another process. */
  sweep(params?: Partial<SweepParams>): Promise<Swept>
}

function labOf(database: { readonly url: string }): Lab {
  let pool: pg.Pool
  beforeAll(async () => {
    pool = new pg.Pool({ connectionString: database.url, max: 8 })
    pool.on('error', () => {})
    await pgStore(pool).schema.migrate()
  })
  afterAll(() => pool.end())
  return {
    get pool() {
      return pool
    },
    one: async <T>(sql: string, values?: unknown[]) =>
      Object.values((await pool.query(sql, values)).rows[0] ?? {})[0] as T,
    sweep: (params) => pgStore(pool).retention.sweep({ limit: 10_000, replayForMs: DAY_MS, ...params }),
  }
}

async function sweepAll({ sweep }: Pick<Lab, 'sweep'>): Promise<number> {
  let records = 0
  for (let sweeps = 0; sweeps < 200; sweeps++) {
    const swept = await sweep()
    records += swept.records
    if (swept.finished) return records
  }
  throw new Error('it does not come to an end')
}

describePostgres('a sweep of a large table', (database) => {
  const lab = labOf(database)

  /** Blocks of the record table that were looked at so far. */
  const looked = async (): Promise<number> => {
    await lab.pool.query('select pg_stat_force_next_flush()')
    return lab.one(
      `select (heap_blks_read + heap_blks_hit)::float8 from pg_statio_user_tables where relname = 'record'`,
    )
  }

  it('looks at no part again before something in it is due, whichever process it is', async () => {
    await lab.pool.query(FILL)
    await lab.pool.query('vacuum analyze effectively_once.record')
    await sweepAll(lab)
    // One connection, so that its counters are flushed.
    const pool = new pg.Pool({ connectionString: database.url, max: 1 })
    const flushed = async (): Promise<number> => {
      await pool.query('select pg_stat_force_next_flush()')
      return looked()
    }
    const before = await flushed()
    for (let i = 0; i < 3; i++) {
      const swept = await pgStore(pool).retention.sweep({ limit: 10_000, replayForMs: DAY_MS })
      expect(swept).toMatchObject({ records: 0, finished: true })
    }
    expect((await flushed()) - before).toBeLessThan(100)
    await pool.end()
  })

  it('finds what is due wherever it is, a bounded number at a time', async () => {
    await lab.pool.query(
      `update effectively_once.record set expires_at = now() - interval '2 s', forget_at = now() - interval '1 s' where token % 100 = 0`,
    )
    await lab.pool.query(`update effectively_once.sweep_part set due_at = now()`)
    const counts: number[] = []
    for (let finished = false; !finished && counts.length < 500;) {
      const swept = await lab.sweep({ limit: 70 })
      counts.push(swept.records)
      finished = swept.finished
    }
    expect(Math.max(...counts)).toBe(70)
    expect(counts.reduce((sum, n) => sum + n)).toBe(RECORDS / 100)
    expect(await lab.one(`select count(*)::int4 from effectively_once.record where forget_at <= now()`)).toBe(0)
    expect(await lab.one(`select count(*)::int4 from effectively_once.record`)).toBe(RECORDS - RECORDS / 100)
  })

  it('looks into an inbox the same way', async () => {
    const store = pgStore(lab.pool)
    await store.inbox.open({ consumer: 'c', inboxForMs: DAY_MS, rememberForMs: 2 * DAY_MS, lettersForMs: DAY_MS })
    await lab.pool.query(
      `insert into effectively_once.inbox (id, consumer, source, message, at)
       select md5('i' || n)::uuid, 'c', 's', n::text, case when n % 1000 = 0 then now() - interval '25 hours' else now() end
         from generate_series(1, 150000) n`,
    )
    let marked = 0
    for (let i = 0; i < 50; i++) {
      const swept = await pgStore(lab.pool).inbox.sweep({ limit: 10_000 })
      marked += swept.marked
      if (swept.finished) break
    }
    expect(marked).toBe(150)
    const due = `select count(*)::int4 from effectively_once.sweep_part where name = 'inbox' and due_at <= now()`
    expect(await lab.one(due)).toBe(0)
  })
})

describePostgres('sweepers at once', (database) => {
  const lab = labOf(database)

  it('one sweeps, the others say that they did not, and wait for nobody', async () => {
    const blocker = await lab.pool.connect()
    await blocker.query('begin')
    await blocker.query('lock table effectively_once.record in access exclusive mode')
    const first = lab.sweep()
    await new Promise((resolve) => setTimeout(resolve, 200))
    const signals: Signal[] = []
    const observe = (signal: Signal): void => void signals.push(signal)
    const once = effectivelyOnce({ namespace: 'other', store: pgStore(lab.pool), sweep: false, guard: 'off', observe })
    expect(await once.sweep()).toMatchObject({ skipped: true, records: 0, troubles: [] })
    expect(signals).toMatchObject([{ kind: 'swept', skipped: true }])
    await blocker.query('rollback')
    blocker.release()
    expect(await first).toMatchObject({ skipped: false, finished: true })
    expect(await once.sweep()).toMatchObject({ skipped: false })
  })

  it('one that died is waited for, for a while', async () => {
    await lab.pool.query(`update effectively_once.sweeper set until = now() + interval '1 minute'`)
    expect(await lab.sweep()).toMatchObject({ skipped: true })
    await lab.pool.query(`update effectively_once.sweeper set until = now()`)
    expect(await lab.sweep()).toMatchObject({ skipped: false })
  })
})

describePostgres('answers beyond the partitions', (database) => {
  const lab = labOf(database)
  const partitions = (): Promise<number> =>
    lab.one(`select count(*)::int4 from pg_inherits h join pg_class c on c.oid = h.inhrelid
              where h.inhparent = 'effectively_once.answer'::regclass and c.relname ~ '^answer_2'`)
  const strays = (): Promise<number> => lab.one('select count(*)::int4 from effectively_once.answer_default')

  beforeAll(async () => {
    // A sequence remembers what was tried, also when it was rolled back.
    await lab.pool.query(`create sequence tries; create function tried() returns event_trigger language plpgsql as $$
begin perform nextval('tries'); end $$;
create event trigger tried on ddl_command_start execute function tried()`)
  })
  const tries = (): Promise<number> => lab.one(`select nextval('tries')::int4`)

  it('have a partition of their own day from the next sweep on, whoever sweeps', async () => {
    const once = effectivelyOnce({ namespace: 'shop', store: pgStore(lab.pool), sweep: false, guard: 'off' })
    const run = (key: string): Promise<unknown> =>
      once.run({ scope: 'u', key, input: 1, replayFor: '9d' }, async () => 'done')
    await run('first')
    expect(await strays()).toBe(1)
    await once.sweep()
    // Today and eleven days more, without the one that the first answer expires on.
    expect(await partitions()).toBe(11)
    await lab.pool.query(`delete from effectively_once.answer_default`)
    await lab.sweep()
    expect(await partitions()).toBe(12)
    await run('second')
    expect(await strays()).toBe(0)
    expect(await run('second')).toBe('done')
  })

  it('of a day that has some in the default partition are left there: nothing is tried, again and again', async () => {
    await lab.pool.query(STRAY, [20, 10, 10])
    await lab.sweep({ replayForMs: 19 * DAY_MS })
    const [before, there] = [await tries(), await partitions()]
    for (let i = 0; i < 3; i++) await lab.sweep({ replayForMs: 19 * DAY_MS })
    expect((await tries()) - before).toBe(1)
    expect(await partitions()).toBe(there)
    expect(
      await lab.one(
        `select to_regclass('effectively_once.answer_' || to_char(now() at time zone 'utc' + interval '20 days', 'YYYYMMDD'))`,
      ),
    ).toBe(null)
  })

  it('are attached beside whoever reads answers of other days', async () => {
    const reader = await lab.pool.connect()
    await reader.query('begin')
    await reader.query(`lock table only effectively_once.answer in access share mode`)
    const before = await partitions()
    await lab.sweep({ replayForMs: 23 * DAY_MS })
    expect(await partitions()).toBeGreaterThan(before)
    await reader.query('rollback')
    reader.release()
  })

  it('are many: nobody is kept out while they are looked through', async () => {
    await lab.pool.query(STRAY, [34, 60_000, 200])
    const before = await tries()
    for (let i = 0; i < 3; i++) await lab.sweep({ replayForMs: 30 * DAY_MS })
    expect((await tries()) - before).toBe(1)
  })

  it('go when their day is past, a bounded number at a time', async () => {
    await lab.pool.query(`delete from effectively_once.answer_default`)
    await lab.pool.query(STRAY, [-3, 250, 10])
    await lab.pool.query(STRAY, [40, 5, 10])
    expect(await lab.sweep({ limit: 100 })).toMatchObject({ finished: false })
    expect(await strays()).toBe(155)
    expect(await lab.sweep({ limit: 100 })).toMatchObject({ finished: false })
    expect(await lab.sweep({ limit: 100 })).toMatchObject({ finished: true })
    expect(await strays()).toBe(5)
  })
})

describePostgres('a role that owns nothing', (database) => {
  const lab = labOf(database)
  let app: pg.Pool
  const role = `app_${process.pid}`
  const events = { made: event<{ n: number }>(() => 'a') }

  beforeAll(async () => {
    await lab.pool.query(`create role ${role} login password 'app'`)
    await lab.pool.query(`grant usage on schema effectively_once to ${role}`)
    await lab.pool.query(`grant select, insert, update, delete on all tables in schema effectively_once to ${role}`)
    await lab.pool.query(`grant usage on all sequences in schema effectively_once to ${role}`)
    const url = new URL(database.url)
    url.username = role
    url.password = 'app'
    app = new pg.Pool({ connectionString: url.href, max: 4 })
    app.on('error', () => {})
  })
  afterAll(async () => {
    await app.end()
    await lab.pool.query(`drop owned by ${role}`)
    await lab.pool.query(`drop role ${role}`)
  })

  const open = (signals: Signal[] = []) =>
    effectivelyOnce({
      namespace: 'app',
      store: pgStore(app),
      events,
      sweep: false,
      guard: 'off',
      observe: (signal) => signals.push(signal),
    })
  /** As if the owner had not swept for days. */
  const neglect = async (): Promise<void> => {
    const { rows } = await lab.pool.query<{ name: string }>(
      `select c.relname as name from pg_inherits h join pg_class c on c.oid = h.inhrelid
        where h.inhparent = 'effectively_once.answer'::regclass and c.relname ~ '^answer_2'`,
    )
    for (const { name } of rows) await lab.pool.query(`drop table effectively_once.${name}`)
  }

  it('may migrate a schema that is current', async () => {
    const version = await pgStore(lab.pool).schema.version()
    expect(await open().migrate()).toEqual({ from: version, to: version })
    await neglect()
    expect(await open().migrate()).toEqual({ from: version, to: version })
    await lab.sweep()
  })

  it('is told what it may not do where it must be done', async () => {
    await expect(pgStore(app, { schema: 'another' }).schema.migrate()).rejects.toMatchObject({
      code: 'ONCE_RIGHTS_MISSING',
      message: expect.stringContaining('npx effectively-once migrate'),
    })
  })

  it('sweeps what it can', async () => {
    const signals: Signal[] = []
    const once = open(signals)
    await once.run({ scope: 'u', key: 'old', input: 1 }, async () => 'done')
    await lab.pool.query(
      `update effectively_once.record set expires_at = now() - interval '1 s', forget_at = now() - interval '1 s'`,
    )
    await lab.pool.query(STRAY, [-3, 10, 10])
    await neglect()
    const consumer = await once.consumer('c', { from: once.outbox }, { made: async () => {} }).start()
    await consumer.stop()
    const swept = await once.sweep()
    expect(swept).toMatchObject({ records: 1, finished: true })
    expect(swept.troubles).toMatchObject([{ code: 'ONCE_RIGHTS_MISSING' }])
    expect(swept.troubles[0]!.message).toContain('npx effectively-once sweep')
    expect(await lab.one(`select count(*)::int4 from effectively_once.answer where day < now()`)).toBe(0)
    for (let i = 0; i < 3; i++) await once.sweep()
    const told = (): number => signals.filter(({ kind }) => kind === 'troubled').length
    expect(told()).toBe(1)
    // The owner comes by, and is needed again.
    await lab.sweep()
    expect((await once.sweep()).troubles).toEqual([])
    await neglect()
    await once.sweep()
    expect(told()).toBe(2)
    await lab.sweep()
  })

  it('is not told of what is merely not done ahead', async () => {
    await lab.pool.query(
      `do $$ begin execute 'drop table effectively_once.answer_' || to_char(now() at time zone 'utc' + interval '3 days', 'YYYYMMDD'); end $$`,
    )
    expect((await open().sweep()).troubles).toEqual([])
    await lab.sweep()
  })

  it('turns over the segments that the owner made', async () => {
    const once = open()
    const sweep = (pool: pg.Pool): Promise<Swept> =>
      pgStore(pool).retention.sweep({ limit: 1_000, replayForMs: DAY_MS, resendForMs: 1 })
    const publish = (n: number): Promise<unknown> =>
      once.run({ scope: 'u', key: `event ${n}`, input: n }, async ({ publish }) => publish('made', { n }))
    /** Of the newest segment: 1 attached, 2 written now. */
    const newest = (): Promise<number> =>
      lab.one(`select state::int4 from effectively_once.segment where name = 'event' order by no desc limit 1`)
    const bySweepsOf = async (pool: pg.Pool): Promise<void> => {
      for (let i = 0; i < 4; i++) expect((await sweep(pool)).troubles).toEqual([])
    }
    await publish(1)
    await once.relay({ to: inProcessSink(() => {}, { name: 'here' }) }).drain()
    await bySweepsOf(app)
    expect(await newest()).toBe(2)
    await sweep(lab.pool)
    expect(await newest()).toBe(1)
    await bySweepsOf(app)
    expect(await newest()).toBe(2)
    expect(
      await lab.one(`select count(*)::int4 from effectively_once.segment where name = 'event' and state = 5`),
    ).toBeGreaterThan(0)
    await publish(2)
    // The owner has not come for days.
    await lab.pool.query(`update effectively_once.segment set since = since - interval '3 days'`)
    const { troubles } = await sweep(app)
    expect(troubles).toMatchObject([{ code: 'ONCE_RIGHTS_MISSING' }])
    for (let i = 0; i < 8; i++) await sweep(lab.pool)
    expect((await sweep(app)).troubles).toEqual([])
  })
})

describePostgres('a part of a sweep that fails', (database) => {
  const lab = labOf(database)

  it('keeps no other part from running', async () => {
    const once = effectivelyOnce({ namespace: 'shop', store: pgStore(lab.pool), sweep: false, guard: 'off' })
    await lab.pool.query(STRAY, [-3, 10, 10])
    await once.run({ scope: 'u', key: 'some', input: 1 }, async () => 'done')
    await lab.pool.query('alter table effectively_once.record rename column forget_at to forgotten_at')
    await expect(once.sweep()).rejects.toMatchObject({ code: 'ONCE_NOT_MIGRATED' })
    expect(await lab.one('select count(*)::int4 from effectively_once.answer_default')).toBe(0)
    await lab.pool.query('alter table effectively_once.record rename column forgotten_at to forget_at')
    expect(await once.sweep()).toMatchObject({ finished: true })
  })
})
