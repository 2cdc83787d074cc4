import { describe, expect, test } from 'vitest'
import { effectivelyOnce, event } from '../index.ts'
import { systemClock } from '../platform/clock.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import type { Outbox } from '../store/outbox.ts'
import { describePostgres } from '../../test/support/postgres.ts'
import { describeSqlite } from '../../test/support/sqlite.ts'
import { pgStore } from '../entry/pg.ts'
import type { SqlStore } from '../store/store.ts'
import { outboxSource } from './outbox.ts'
import type { Delivery, Subscription } from './source.ts'
import pg from 'pg'

const events = { made: event<{ id: string; n: number }>(({ id }) => id) }
const LEASE_MS = 1_500
let worlds = 0

/** Events, and a consumer's subscription whose deliveries the test settles itself. */
async function world(store: SqlStore<never>) {
  const namespace = `resent-${process.pid}-${++worlds}`
  const once = effectivelyOnce({ namespace, store, events, sweep: false, guard: 'off' })
  await once.migrate()
  const make = async (aggregates: number, each: number, notBefore?: Date): Promise<void> => {
    for (let n = 0; n < each; n++)
      await once.run({ scope: 's', key: `k${Math.random()}`, input: null }, async ({ publish }) => {
        for (let i = 0; i < aggregates; i++) await publish('made', { id: `a${i}`, n }, notBefore ? { notBefore } : {})
      })
  }
  const { outbox } = (once as unknown as { core: { namespace: { outbox: Outbox } } }).core.namespace
  const opened = (): Promise<Subscription> => {
    const parts = { clock: systemClock, observe: () => undefined, source: 'test', keptForMs: 60_000 }
    const wakes = { leaseMs: LEASE_MS, onPublished: () => () => undefined }
    return outboxSource({ ...parts, ...wakes, outbox }).open({ consumer: 'c' } as never)
  }
  return { once, make, opened }
}

async function received(from: Subscription, waitMs = 100, max = 50): Promise<readonly Delivery[]> {
  return from.receive({ max, waitMs, signal: new AbortController().signal })
}

/** Everything that comes within the time, settled at once. */
async function takeAll(from: Subscription, expected: number, ms = 15_000): Promise<string[]> {
  const seen: string[] = []
  for (const until = Date.now() + ms; seen.length < expected && Date.now() < until;) {
    const deliveries = await received(from)
    for (const { event: made } of deliveries) {
      const { data } = made as { data: { id: string; n: number } }
      seen.push(`${data.id}:${data.n}`)
    }
    await from.ack(deliveries)
  }
  return seen
}

function suite(open: () => Promise<SqlStore<never>>): void {
  test('a resend brings every event of an aggregate, in order', async () => {
    const { once, make, opened } = await world(await open())
    await make(10, 10)
    const from = await opened()
    expect(await takeAll(from, 100)).toHaveLength(100)
    await new Promise((resolve) => setTimeout(resolve, 200))
    expect(await once.resend({ destination: 'consumer c', since: new Date(0) })).toBe(100)
    const again = await takeAll(from, 100)
    expect(again).toHaveLength(100)
    for (let i = 0; i < 10; i++) {
      const own = again.filter((one) => one.startsWith(`a${i}:`))
      expect(own).toEqual(Array.from({ length: 10 }, (_, n) => `a${i}:${n}`))
    }
    expect(await received(from)).toEqual([])
    await from.close()
    await once.close()
  })

  test('delayed events that were in hand when their shards were lost come again', async () => {
    const { once, make, opened } = await world(await open())
    await make(64, 1, new Date(Date.now() + 300))
    const one = await opened()
    const inHand: Delivery[] = []
    for (const until = Date.now() + 10_000; inHand.length < 64 && Date.now() < until;)
      inHand.push(...(await received(one, 100, 64)))
    expect(inHand).toHaveLength(64)
    // Another process takes its half, and ends: what the first one had of it was dropped by its consumer.
    const two = await opened()
    const lost = new Promise<ReadonlySet<string>>((resolve) => one.onRevoked?.((shards) => resolve(new Set(shards))))
    const looking = setInterval(() => void received(one, 0), 50)
    const gone = await lost
    clearInterval(looking)
    await new Promise((resolve) => setTimeout(resolve, 200))
    await two.close()
    const dropped = inHand.flatMap(({ id, position }) => (gone.has(position?.partition ?? '') ? id : []))
    expect(dropped.length).toBeGreaterThan(0)
    const again = new Set<string>()
    for (const until = Date.now() + 10_000; again.size < dropped.length && Date.now() < until;)
      for (const { id } of await received(one)) again.add(id)
    expect([...again].sort()).toEqual(dropped.sort())
    await one.close()
    const three = await opened()
    expect(await takeAll(three, 64)).toHaveLength(64)
    await three.close()
    await once.close()
  })
}

describe('held events of the outbox source, memory', () => {
  suite(async () => memoryStore() as never)
})
describeSqlite('held events of the outbox source, SQLite', (lab) => suite(async () => (await lab.store()) as never))
describePostgres('held events of the outbox source, PostgreSQL', (database) =>
  suite(async () => {
    const pool = new pg.Pool({ connectionString: database.url, max: 5 })
    pool.on('error', () => {})
    return pgStore(pool) as never
  }),
)
