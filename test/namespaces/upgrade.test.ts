import pg from 'pg'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { messageIdentity } from '../../src/consumer/inbox/identity.ts'
import { pgStore } from '../../src/store/postgres/pg.ts'
import { SCHEMA_VERSION } from '../../src/store/postgres/migrations.ts'
import { describePostgres, freshDatabase, type FreshDatabase } from '../support/postgres.ts'
import { describeSqlite } from '../support/sqlite.ts'
import { BEFORE, codeFromBefore, migrateBefore, migrateSqliteBefore } from './before.ts'
import { numbered, service, type Service } from './services.ts'

describePostgres('a database from before namespaces', () => {
  let database: FreshDatabase
  let pool: pg.Pool
  let old: ReturnType<typeof codeFromBefore>
  let services: Service[]
  beforeEach(async () => {
    database = await freshDatabase()
    pool = new pg.Pool({ connectionString: database.url, max: 8 })
    pool.on('error', () => {})
    services = []
    await migrateBefore(pool)
    old = codeFromBefore(pool)
  })
  afterEach(async () => {
    await Promise.all(services.map((one) => one.close()))
    await pool.end()
    await database.drop()
  })
  const open = (name: string): Service => {
    const opened = service(name, pgStore(pool))
    services.push(opened)
    return opened
  }
  const version = (): Promise<number> => pgStore(pool).schema.version()
  const namespaces = async (): Promise<unknown> => pgStore(pool).namespaces?.list()
  const drain = async ({ once }: Service): Promise<string[]> => {
    const applied: string[] = []
    const on = {
      'note.made': async ({ source, data }: { source: string; data: { n: number } }) =>
        void applied.push(`${source} ${data.n}`),
    }
    const consumer = once.consumer('emails', { from: once.outbox }, on)
    await consumer.drain()
    return applied
  }

  it('of one service belongs to it, with cursors, inbox and dead letters, beside code that was not upgraded', async () => {
    await old.open('emails')
    for (const n of [1, 2, 3]) await old.publish('shop', n)
    const { id } = messageIdentity({
      consumer: 'emails',
      source: 'shop',
      message: '00000000-0000-8000-8000-000000000001',
    })
    await pool.query(
      `insert into effectively_once.inbox (id, consumer, source, message) values ($1, 'emails', 'shop', 'x')`,
      [id],
    )
    const shop = open('shop')
    expect(await shop.once.migrate()).toEqual({ from: BEFORE, to: SCHEMA_VERSION })
    expect(await namespaces()).toEqual([{ no: 0, name: 'shop' }])
    await old.publish('shop', 4)
    await shop.publish(1)
    expect(await drain(shop)).toEqual(['shop 2', 'shop 3', 'shop 4', 'shop 1'])
    expect(await shop.sent()).toEqual(['shop 1', 'shop 2', 'shop 3', 'shop 4', 'shop 1'])
    const billing = open('billing')
    await billing.publish(2)
    expect(await billing.sent()).toEqual(numbered('billing', 1, 2))
    await old.publish('shop', 5)
    expect(await billing.sent()).toEqual([])
    expect(await shop.sent()).toEqual(['shop 5'])
  })

  it('ordered events of code that was not upgraded go on with the chain', async () => {
    const first = await old.publish('shop', 1, true)
    const shop = open('shop')
    await shop.once.migrate()
    await shop.publish(1, 'link.made')
    await old.publish('shop', 2, true)
    await open('billing').publish(1, 'link.made')
    const { rows } = await pool.query<{ id: string; previous: string | null; shard: number }>(
      `select id, shard, headers ->> 'previous' as previous from effectively_once.event order by seq`,
    )
    expect(rows.map(({ previous }) => previous)).toEqual([null, first, rows[1]?.id, null])
    expect(new Set(rows.slice(0, 3).map(({ shard }) => shard)).size).toBe(1)
  })

  it('of several services is not migrated before somebody says whose it is', async () => {
    await old.publish('shop', 1)
    await old.publish('billing', 1)
    const [shop, billing] = [open('shop'), open('billing')]
    await expect(shop.once.migrate()).rejects.toMatchObject({
      code: 'ONCE_NAMESPACE_UNDECIDED',
      message: expect.stringContaining('billing, shop have events in this database'),
    })
    expect(await version()).toBe(BEFORE)
    // Nobody else is held up: what runs goes on, and what is new says what it misses.
    await old.publish('shop', 2)
    await expect(billing.publish(1)).rejects.toMatchObject({ code: 'ONCE_NOT_MIGRATED' })
    expect(await billing.once.migrate({ adopt: 'shop' })).toEqual({ from: BEFORE, to: SCHEMA_VERSION })
    await billing.publish(1)
    await shop.publish(1)
    expect(await billing.sent()).toEqual(['billing 2'])
    expect(await shop.sent()).toEqual(['shop 1', 'billing 1', 'shop 2', 'shop 1'])
    expect(await namespaces()).toEqual([
      { no: 0, name: 'shop' },
      { no: 1, name: 'billing' },
    ])
    expect(await shop.once.migrate()).toEqual({ from: SCHEMA_VERSION, to: SCHEMA_VERSION })
    await expect(billing.once.migrate({ adopt: 'billing' })).rejects.toMatchObject({
      code: 'ONCE_OPTION_INVALID',
      message: expect.stringContaining(`belong to 'shop'`),
    })
  })

  it('applied by hand, it says the same, and is told the same way', async () => {
    await old.publish('shop', 1)
    await old.publish('billing', 1)
    const { schema } = pgStore(pool)
    const from = (text: string): string => {
      const [begin = '', ...rest] = text.split(`-- ${BEFORE + 1}: namespaces`)
      const named = /select set_config\('effectively_once[^;]*;/.exec(begin)?.[0] ?? ''
      return `begin;${named}${rest.join('')}`
    }
    await expect(pool.query(from(schema.sql()))).rejects.toMatchObject({ code: 'EO005' })
    await pool.query('rollback')
    await pool.query(from(schema.sql({ adopt: `shop's` })))
    expect(await namespaces()).toEqual([{ no: 0, name: `shop's` }])
  })

  it('where plain SQL had another source than its service, is that of one service', async () => {
    await old.publish('shop', 1)
    await pool.query(`insert into effectively_once.outbox (aggregatetype, aggregateid, type, payload, headers)
      values ('note', 'anna', 'note.made', '{"n": 9}', '{"source": "warehouse"}')`)
    await open('shop').once.migrate()
    expect(await namespaces()).toEqual([{ no: 0, name: 'shop' }])
  })

  it('what nobody can tell the owner of is refused to a second service until the first one has used it', async () => {
    await old.open('emails')
    await old.openDestination('hook')
    const [shop, billing] = [open('shop'), open('billing')]
    await shop.once.migrate()
    await shop.publish(1)
    const undecided = {
      code: 'ONCE_NAMESPACE_UNDECIDED',
      message: expect.stringContaining(`'emails' is older than the service`),
    }
    await expect(drain(billing)).rejects.toMatchObject(undecided)
    await expect(billing.sent()).rejects.toMatchObject({ code: 'ONCE_NAMESPACE_UNDECIDED' })
    expect(await drain(shop)).toEqual(['shop 1'])
    await billing.publish(1)
    expect(await drain(billing)).toEqual(['billing 1'])
    await expect(billing.sent()).rejects.toMatchObject({ code: 'ONCE_NAMESPACE_UNDECIDED' })
    await shop.once.migrate({ adopt: 'shop' })
    expect(await billing.sent()).toEqual(['billing 1'])
    expect(await shop.sent()).toEqual(['shop 1'])
  })

  it('a destination from before that the first service forgets is anybody’s', async () => {
    await old.openDestination('hook')
    const [shop, billing] = [open('shop'), open('billing')]
    await shop.once.migrate()
    await shop.publish(1)
    await billing.publish(1)
    await expect(billing.sent()).rejects.toMatchObject({ code: 'ONCE_NAMESPACE_UNDECIDED' })
    await shop.once.forget({ destination: 'hook' })
    expect(await billing.sent()).toEqual(['billing 1'])
  })
})

describePostgres('namespaces of a database', (database) => {
  it('are 512 at most, and whoever comes after that is told', async () => {
    const pool = new pg.Pool({ connectionString: database.url, max: 4 })
    const { schema, namespaces } = pgStore(pool)
    await schema.migrate()
    if (!namespaces) throw new Error('no namespaces')
    const numbers = await Promise.all(['a', 'b', 'a', 'c', 'b'].map((name) => namespaces.register({ name })))
    expect(new Set(numbers)).toEqual(new Set([0, 1, 2]))
    await pool.query(`insert into effectively_once.namespace select g, 'n' || g from generate_series(3, 510) g`)
    expect(await namespaces.register({ name: 'last' })).toBe(511)
    await expect(namespaces.register({ name: 'one more' })).rejects.toMatchObject({ code: 'ONCE_NAMESPACES_FULL' })
    expect(await namespaces.register({ name: 'last' })).toBe(511)
    const last = service('last', pgStore(pool))
    await last.publish(2)
    expect(await last.sent()).toEqual(numbered('last', 1, 2))
    await last.close()
    await pool.end()
  })
})

describeSqlite('a file from before namespaces', (lab) => {
  const EVENT = `insert into effectively_once_event (shard, id, aggregatetype, aggregateid, type, payload, headers, created_at)
    values (4, $1, 'note', 'anna', 'note.made', '{"to": "anna", "n": 9}', $2, 1)`
  const idOf = (n: number): string => `00000000-0000-8000-8000-00000000000${n}`

  it('of one service belongs to it; of several, to the one that is named', async () => {
    const file = lab.file()
    const store = lab.bare({ file })
    await migrateSqliteBefore(store)
    const publish = (n: number, source: string) =>
      store.transaction(async (tx) => void (await tx.query(EVENT, [idOf(n), JSON.stringify({ source })])))
    await publish(1, 'shop')
    await publish(2, 'billing')
    const shop = service('shop', store)
    await expect(shop.once.migrate()).rejects.toMatchObject({ code: 'ONCE_NAMESPACE_UNDECIDED' })
    expect(await store.schema.version()).toBe(6)
    await shop.once.migrate({ adopt: 'shop' })
    expect(await store.namespaces?.list()).toEqual([{ no: 0, name: 'shop' }])
    await publish(3, 'shop')
    expect(await shop.sent()).toEqual(['shop 9', 'billing 9', 'shop 9'])
    await expect(shop.once.migrate({ adopt: 'billing' })).rejects.toMatchObject({ code: 'ONCE_OPTION_INVALID' })
  })

  it('what nobody can tell the owner of is refused to a second service until the first one has used it', async () => {
    const store = lab.bare()
    await migrateSqliteBefore(store)
    await store.transaction(async (tx) => {
      await tx.query(EVENT, [idOf(1), '{"source": "shop"}'])
      await tx.query(`insert into effectively_once_shard (destination, shard) values ('hook', 4)`)
    })
    const [shop, billing] = [service('shop', store), service('billing', store)]
    await shop.once.migrate()
    await expect(billing.sent()).rejects.toMatchObject({ code: 'ONCE_NAMESPACE_UNDECIDED' })
    expect(await shop.sent()).toEqual(['shop 9'])
    await billing.publish(1)
    expect(await billing.sent()).toEqual(['billing 1'])
  })

  it('events of a namespace that was sent nowhere stay, and their chains outlive them', async () => {
    const store = await lab.store()
    const [shop, billing] = [service('shop', store), service('billing', store)]
    await shop.publish(2, 'link.made')
    await billing.publish(2, 'link.made')
    const count = async (): Promise<number> =>
      store.transaction(async (tx) => (await tx.query(`select 1 from effectively_once_event`)).rows.length)
    const sweep = (): Promise<unknown> => store.retention.sweep({ limit: 100, replayForMs: 1_000, resendForMs: 0 })
    await shop.sent()
    await sweep()
    expect(await count()).toBe(2)
    await billing.sent()
    await sweep()
    expect(await count()).toBe(0)
    await billing.publish(1, 'link.made')
    await shop.publish(1, 'link.made')
    const headers = await store.transaction(
      async (tx) =>
        (await tx.query<{ headers: string }>('select headers from effectively_once_event order by seq')).rows,
    )
    const previous = headers.map((row) => (JSON.parse(row.headers) as { previous: string | null }).previous)
    expect(new Set(previous).size).toBe(2)
    expect(previous).not.toContain(null)
  })
})
