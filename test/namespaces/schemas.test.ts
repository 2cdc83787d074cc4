import pg from 'pg'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { effectivelyOnce, event } from '../../src/index.ts'
import { pgStore } from '../../src/store/postgres/pg.ts'
import { describePostgres, freshDatabase, type FreshDatabase } from '../support/postgres.ts'

const events = { 'note.made': event<{ to: string }>(({ to }) => to) }

/** The order of events in one shard rests on this lock: its class, and the shard. */
const OLD_LOCK = 'select pg_advisory_xact_lock(3598, $1::int4)'

describePostgres('one schema per tenant', () => {
  let database: FreshDatabase
  let pool: pg.Pool
  beforeEach(async () => {
    database = await freshDatabase()
    pool = new pg.Pool({ connectionString: database.url, max: 12 })
    pool.on('error', () => {})
  })
  afterEach(async () => {
    await pool.end()
    await database.drop()
  })

  async function tenant(schema?: string) {
    const store = pgStore(pool, schema === undefined ? {} : { schema })
    const once = effectivelyOnce({ namespace: 'shop', store, events, guard: 'off', sweep: false, deadline: '5s' })
    await once.migrate()
    return once
  }

  it.each([
    ['tenant_a', 'tenant_b'],
    [undefined, 'tenant_b'],
  ])('the same key runs in %s and in %s at once, whatever its input', async (a, b) => {
    const [first, second] = [await tenant(a), await tenant(b)]
    const operation = (amount: number) => ({ scope: 'customer', key: 'order-1', input: { amount } })
    let inside: unknown
    await first.run(operation(1), async () => {
      for (const amount of [1, 2]) {
        inside = await second
          .run({ ...operation(amount), key: `order-${amount}` }, async () => 'ran')
          .catch((error: unknown) => error)
        expect(inside).toBe('ran')
      }
      const run = second.batched({
        statement: (input: { n: number }) => ({ sql: 'select $1::int4 as n', values: [input.n] }),
        respond: (rows) => rows[0]?.['n'],
      })
      expect(await run({ scope: 'customer', key: 'order-3', input: { n: 3 } })).toBe(3)
    })
    await first.run({ ...operation(1), key: 'order-4' }, async () => {
      const leased = { ...operation(2), key: 'order-4', lease: '5s' } as const
      expect(await second.run(leased, ({ commit }) => commit(async () => 'leased'))).toBe('leased')
    })
    await Promise.all([first.close(), second.close()])
  })

  it('the same message runs in two of them at once', async () => {
    const [first, second] = [await tenant('tenant_a'), await tenant('tenant_b')]
    const [a, b] = [pgStore(pool, { schema: 'tenant_a' }), pgStore(pool, { schema: 'tenant_b' })]
    const item = {
      id: '00000000-0000-4000-8000-000000000001',
      lock: '17',
      source: 's',
      message: 'm',
      aggregate: null,
      previous: null,
    }
    const params = { consumer: 'emails', items: [item], deadlineMs: 5_000 }
    const taken = [await a.inbox.take(params), await b.inbox.take(params), await a.inbox.take(params)]
    expect(taken.map(({ states: views }) => views)).toEqual([['taken'], ['taken'], ['busy']])
    for (const { session } of taken) await session.rollback()
    await Promise.all([first.close(), second.close()])
  })

  it('who publishes in one of them keeps nobody in another one waiting', async () => {
    const [first, second] = [await tenant('tenant_a'), await tenant('tenant_b')]
    const note = (once: typeof first, key: string) =>
      once.run({ scope: 's', key, input: null, deadline: '300ms' }, async ({ publish }) => {
        await publish('note.made', { to: 'anna' })
      })
    await note(first, 'before')
    const client = await pool.connect()
    try {
      await client.query('begin')
      await first.join(client).publish('note.made', { to: 'anna' })
      await note(second, 'beside')
      await expect(note(first, 'beside')).rejects.toMatchObject({ code: 'ONCE_DEADLINE' })
    } finally {
      await client.query('rollback')
      client.release()
    }
    await Promise.all([first.close(), second.close()])
  })

  it.each([undefined, 'tenant_a'])(
    'code from before and ours wait for each other in the schema %s: events keep their order',
    async (schema) => {
      const once = await tenant(schema)
      const name = schema ?? 'effectively_once'
      const publish = (key: string) =>
        once.run({ scope: 's', key, input: null, deadline: '300ms' }, async (op) => {
          await op.publish('note.made', { to: 'anna' })
        })
      await publish('a')
      const { rows } = await pool.query<{ shard: number }>(`select shard from ${name}.event`)
      const client = await pool.connect()
      try {
        await client.query('begin')
        await client.query(OLD_LOCK, [rows[0]?.shard])
        await expect(publish('b')).rejects.toMatchObject({ code: 'ONCE_DEADLINE' })
        await client.query('rollback')
        await client.query('begin')
        await client.query(`set local lock_timeout = '200ms'`)
        await once.join(client).publish('note.made', { to: 'anna' })
        const old = await pool.connect()
        await old.query('begin')
        await old.query(`set local lock_timeout = '200ms'`)
        await expect(old.query(OLD_LOCK, [rows[0]?.shard])).rejects.toMatchObject({ code: '55P03' })
        await old.query('rollback')
        old.release()
      } finally {
        await client.query('rollback')
        client.release()
      }
      await once.close()
    },
  )
})
