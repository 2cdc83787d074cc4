import { setTimeout as pass } from 'node:timers/promises'
import pg from 'pg'
import { afterEach, beforeAll, beforeEach, expect, it } from 'vitest'
import { effectivelyOnce, event, inProcessSink, type Once } from '../../src/index.ts'
import { pgStore } from '../../src/store/postgres/pg.ts'
import { MIGRATIONS, SCHEMA_VERSION } from '../../src/store/postgres/migrations.ts'
import { MIGRATIONS as SQLITE_MIGRATIONS, VERSION_TABLE } from '../../src/store/sqlite/migrations.ts'
import type { SqliteStore } from '../../src/store/sqlite/sqlite.ts'
import type { Store } from '../../src/store/store.ts'
import { shardOf } from '../../src/outbox/publisher.ts'
import { describePostgres, freshDatabase, type FreshDatabase } from '../support/postgres.ts'
import { describeSqlite } from '../support/sqlite.ts'

type Row = Record<string, unknown>
/** One operation as code of any version has written it: its record, its answer and one event. */
interface Written {
  readonly key: string
  readonly record: Row
  readonly answer: Row
}

const KEYS = Array.from({ length: 40 }, (_, n) => `k${n}`)
const BEFORE = 10
/** What the first version had: later ones may add columns, with defaults. */
const RECORD = 'id scope fp fp_version state token life attempt lease_until expires_at forget_at'.split(' ')
const ANSWER = 'id day status headers body kept'.split(' ')
const events = { 'charge.made': event<{ key: string }>(({ key }) => key) }
const earlier = (versions: readonly { version: number }[]): number[] => versions.slice(0, -1).map((one) => one.version)

function open<Tx>(store: Store<Tx>): Once<Tx, typeof events> {
  return effectivelyOnce({ namespace: 'shop', store, events, guard: 'off', sweep: false })
}

const charge = <Tx>(once: Once<Tx, typeof events>, key: string, answer: unknown): Promise<unknown> =>
  once.run({ scope: 'ann', key, input: { key } }, async ({ publish }) => {
    await publish('charge.made', { key })
    return answer
  })

/** Writes before the upgrade, through it and after it, as a process that nobody restarted. */
async function writeThrough(
  keys: readonly Written[],
  write: (one: Written) => Promise<void>,
  upgrade: () => Promise<void>,
) {
  const left = [...keys]
  for (const one of left.splice(0, BEFORE)) await write(one)
  const upgraded = new AbortController()
  let during = 0
  const writer = (async () => {
    while (!upgraded.signal.aborted && left.length > 2) {
      await write(left.shift()!)
      during++
      await pass(2)
    }
  })()
  try {
    await upgrade()
  } finally {
    upgraded.abort()
    await writer
  }
  for (const one of left) await write(one)
  return during
}

/** Everything that was written is replayed by the new code, and every event leaves once. */
async function expectAll<Tx>(once: Once<Tx, typeof events>): Promise<void> {
  for (const key of KEYS) expect(await charge(once, key, 'ran again')).toEqual({ key })
  await expect(once.run({ scope: 'ann', key: KEYS[0]!, input: 'another' }, async () => 1)).rejects.toMatchObject({
    code: 'ONCE_MISMATCH',
  })
  expect(await charge(once, 'new', 'new')).toBe('new')
  const sent: string[] = []
  await once.relay({ to: inProcessSink(({ data }) => sent.push((data as { key: string }).key)) }).drain()
  expect(sent.toSorted()).toEqual([...KEYS, 'new'].toSorted())
}

describePostgres('a database of each earlier version of PostgreSQL, with data and under traffic', (template) => {
  let written: Written[]
  let database: FreshDatabase
  let pool: pg.Pool

  beforeAll(async () => {
    const own = new pg.Pool({ connectionString: template.url })
    const once = open(pgStore(own))
    await once.migrate()
    for (const key of KEYS) await charge(once, key, { key })
    const { rows: records } = await own.query<Row>(
      `select ${RECORD.join()} from effectively_once.record order by token`,
    )
    const { rows: answers } = await own.query<Row>(
      `select ${[...ANSWER, 'token'].join().replace('day', 'day::text')} from effectively_once.answer`,
    )
    written = KEYS.map((key, n) => {
      const record = records[n]!
      return { key, record, answer: answers.find(({ id }) => id === record['id'])! }
    })
    await once.close()
    await own.end().catch(() => {})
  })
  beforeEach(async () => {
    database = await freshDatabase()
    pool = new pg.Pool({ connectionString: database.url, max: 4 })
  })
  afterEach(async () => {
    await pool.end().catch(() => {})
    await database.drop()
  })

  async function createAt(version: number): Promise<void> {
    await pool.query(`create schema effectively_once`)
    await pool.query(
      `create table effectively_once.version (version int4 primary key, applied_at timestamptz default now())`,
    )
    for (const migration of MIGRATIONS.slice(0, version)) {
      for (const statement of migration.statements('"effectively_once"')) await pool.query(statement)
      await pool.query('insert into effectively_once.version (version) values ($1)', [migration.version])
    }
  }

  it('an operation locks the tables in another order, and PostgreSQL ends the migration: it begins again', async () => {
    await createAt(8)
    const operation = new pg.Client({ connectionString: database.url })
    await operation.connect()
    const once = open(pgStore(pool))
    try {
      // This session never looks for a deadlock, so the server ends the other one.
      await operation.query(`set deadlock_timeout = '60s'`)
      await operation.query('begin')
      await operation.query('lock table effectively_once.record in row exclusive mode')
      const migrated = once.migrate()
      const waiting = `select 1 from pg_locks where not granted and relation = 'effectively_once.record'::regclass`
      while ((await operation.query(waiting)).rowCount === 0) await pass(5)
      await operation.query('lock table effectively_once.event in row exclusive mode')
      await operation.query('commit')
      expect(await migrated).toEqual({ from: 8, to: SCHEMA_VERSION })
    } finally {
      await operation.end()
      await once.close()
    }
  })

  it.each(earlier(MIGRATIONS))('version %i', async (version) => {
    await createAt(version)
    const other = new pg.Client({ connectionString: database.url })
    await other.connect()
    const once = open(pgStore(pool))
    try {
      const during = await writeThrough(
        written,
        (one) => again(other, () => writeAsBefore(other, one)),
        async () => {
          expect(await once.migrate()).toEqual({ from: version, to: SCHEMA_VERSION })
        },
      )
      expect(during).toBeGreaterThan(0)
      await expectAll(once)
    } finally {
      await other.end()
      await once.close()
    }
  })
})

const insert = (table: string, row: Row): string =>
  `insert into ${table} (${Object.keys(row).join()}) values (${Object.keys(row)
    .map((_, n) => `$${n + 1}`)
    .join()})`

/** The database may end a transaction that waits for the upgrade while the upgrade waits for it: every version retries that. */
async function again(client: pg.Client, write: () => Promise<void>): Promise<void> {
  for (let tries = 0; ; tries++) {
    try {
      return await write()
    } catch (error) {
      await client.query('rollback')
      if ((error as { code?: string }).code !== '40P01' || tries > 5) throw error
    }
  }
}

/** One transaction, in the order in which every version writes. */
async function writeAsBefore(client: pg.Client, { key, record, answer }: Written): Promise<void> {
  const shard = `(get_byte(sha256(convert_to('${key}', 'UTF8')), 0) & 63)`
  await client.query('begin')
  await client.query(insert('effectively_once.record', record), Object.values(record))
  await client.query(
    `insert into effectively_once.event (seq, shard, aggregatetype, aggregateid, type, payload, headers)
     values (case when pg_advisory_xact_lock(3598, ${shard}) is not null then nextval('effectively_once.event_seq') end,
       ${shard}, 'charge', '${key}', 'charge.made', $1, '{"source":"shop"}')`,
    [{ key }],
  )
  await client.query(insert('effectively_once.answer', answer), Object.values(answer))
  await client.query('commit')
}

describeSqlite('a database of each earlier version of SQLite, with data and under traffic', (lab) => {
  let written: Written[]
  const query = (store: SqliteStore, sql: string, values: unknown[] = []): Promise<Row[]> =>
    store.transaction(async (tx) => (await tx.query<Row>(sql, values)).rows)

  async function recorded(): Promise<Written[]> {
    const store = lab.bare()
    const once = open(store)
    await once.migrate()
    for (const key of KEYS) await charge(once, key, { key })
    const records = await query(store, `select ${RECORD.join()} from effectively_once_record order by token`)
    const answers = await query(store, `select ${ANSWER.join()} from effectively_once_answer`)
    await once.close()
    return KEYS.map((key, n) => ({
      key,
      record: records[n]!,
      answer: answers.find(({ id }) => id === records[n]!['id'])!,
    }))
  }
  beforeEach(async () => {
    written ??= await recorded()
  })

  it.each(earlier(SQLITE_MIGRATIONS))('version %i', async (version) => {
    const file = lab.file()
    const [old, once] = [lab.bare({ file }), open(lab.bare({ file }))]
    await old.transaction(async (tx) => {
      await tx.query(VERSION_TABLE)
      for (const migration of SQLITE_MIGRATIONS.slice(0, version)) {
        for (const statement of migration.statements) await tx.query(statement)
        await tx.query(`insert into effectively_once_version (version, applied_at) values (${migration.version}, 0)`)
      }
    })
    const writeOld = ({ key, record, answer }: Written): Promise<void> =>
      old.transaction(async (tx) => {
        await tx.query(insert('effectively_once_record', record), Object.values(record))
        await tx.query(insert('effectively_once_answer', answer), Object.values(answer))
        const said = [shardOf(key), crypto.randomUUID(), key, JSON.stringify({ key }), Date.now()]
        await tx.query(
          `insert into effectively_once_event (shard, id, aggregatetype, aggregateid, type, payload, headers, created_at)
           values ($1, $2, 'charge', $3, 'charge.made', $4, '{"source":"shop"}', $5)`,
          said,
        )
      })
    const to = SQLITE_MIGRATIONS.length
    await writeThrough(written, writeOld, async () => {
      expect(await once.migrate()).toEqual({ from: version, to })
    })
    await expectAll(once)
    await once.close()
  })
})
