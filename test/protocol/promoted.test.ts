import pg from 'pg'
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { effectivelyOnce, event, inProcessSink } from '../../src/index.ts'
import { pgStore } from '../../src/store/postgres/pg.ts'
import { until } from '../relay/world.ts'
import { DatabaseCopies } from '../support/database-copies.ts'
import { describePostgres } from '../support/postgres.ts'
import { SwitchedPool } from '../support/switched-pool.ts'

const events = { 'step.made': event<{ n: number }>(() => 'one') }

describePostgres('a server that was promoted, and does not know what the last one did', () => {
  const copies = new DatabaseCopies()
  const ends: (() => unknown)[] = []
  let migrated: string
  beforeAll(async () => {
    migrated = await copies.copyOf()
    const pool = new pg.Pool({ connectionString: copies.urlOf(migrated) })
    const once = effectivelyOnce({ namespace: 'first', store: pgStore(pool), events, guard: 'off', sweep: false })
    await once.migrate()
    await once.run({ scope: 's', key: '0', input: 0 }, async () => 'done')
    await once.close()
    await pool.end()
  }, 60_000)
  afterEach(async () => {
    for (const end of ends.splice(0).toReversed()) await end()
  })
  afterAll(() => copies.close())

  const server = async (): Promise<string> => copies.urlOf(await copies.copyOf(migrated))

  function service(namespace: string, url: string) {
    const pool = new SwitchedPool(url)
    ends.push(() => pool.end())
    const store = pgStore(pool)
    const once = effectivelyOnce({ namespace, store, events, guard: 'off', sweep: false })
    ends.push(() => once.close())
    const publish = (n: number): Promise<unknown> =>
      once.run({ scope: 's', key: `${n}`, input: n }, ({ publish: send }) => send('step.made', { n }))
    const sent: number[] = []
    const to = inProcessSink(({ data }) => void sent.push((data as { n: number }).n), { name: 'sink' })
    return { pool, store, once, publish, sent, to }
  }

  it('a relay opens its destination there, even if it holds no shard yet', async () => {
    const [old, next] = [await server(), await server()]
    const { pool, store, once, publish, sent, to } = service('first', old)
    const { outbox } = store
    const open = outbox.open.bind(outbox)
    outbox.open = async (params) => {
      await open(params)
      pool.switchTo(next)
    }
    const relay = await once.relay({ to, lease: '1s' }).start()
    ends.push(() => relay.stop())
    await publish(1)
    await expect.poll(() => sent, { timeout: 10_000 }).toEqual([1])
  })

  it('a namespace keeps its number there', async () => {
    const [old, next] = [await server(), await server()]
    const { pool, once, publish, sent, to } = service('second', old)
    const relay = await once.relay({ to, lease: '1s' }).start()
    ends.push(() => relay.stop())
    await publish(1)
    await until(() => sent.length === 1, 10_000)
    pool.switchTo(next)
    const names = (): Promise<pg.QueryResult> => pool.query('select name from effectively_once.namespace order by no')
    await until(async () => (await names()).rowCount === 2, 10_000)
    const third = service('third', next)
    await third.publish(3)
    await publish(2)
    await until(() => sent.length === 2, 10_000)
    expect((await names()).rows).toEqual([{ name: 'first' }, { name: 'second' }, { name: 'third' }])
    expect(await third.once.relay({ to: third.to }).drain()).toBe(1)
    expect([sent, third.sent]).toEqual([[1, 2], [3]])
  })

  it('whoever held a redrive is not taken for whoever holds it there', async () => {
    const [old, next] = [await server(), await server()]
    const leases = []
    for (const url of [old, next]) {
      const { pool, store } = service('first', url)
      await store.inbox.open({ consumer: 'c', inboxForMs: 1_000, rememberForMs: 1_000, lettersForMs: 1_000 })
      await pool.query(`insert into effectively_once.redrive (consumer, actor, why, state, canary, canary_stops, rate, pause_at)
        values ('c', 'me', 'test', 2, 0, false, 1, 1)`)
      leases.push({ redrives: store.redrives, lease: await store.redrives.claim({ consumer: 'c', leaseMs: 60_000 }) })
    }
    const [before, after] = leases
    const beat = { leaseMs: 60_000, starting: [], ended: [] }
    expect(before?.lease?.redrive).toBe(after?.lease?.redrive)
    expect(await after?.redrives.beat({ ...before!.lease!, ...beat })).toBeNull()
    expect(await after?.redrives.beat({ ...after.lease!, ...beat })).toMatchObject({ state: 'running' })
  })
})
