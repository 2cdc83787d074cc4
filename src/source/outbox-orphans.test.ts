import { describe, expect, test } from 'vitest'
import { effectivelyOnce, event } from '../index.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import { describePostgres } from '../../test/support/postgres.ts'
import { describeSqlite } from '../../test/support/sqlite.ts'
import { pgStore } from '../entry/pg.ts'
import type { SqlStore } from '../store/store.ts'
import pg from 'pg'

interface Made {
  readonly id: string
  readonly n: number
}

const events = { 'order.made': event<Made>(({ id }) => id, { ordered: true }) }
const IDS = ['a', 'b', 'c']
let worlds = 0

async function world(store: SqlStore<never>) {
  const namespace = `orphans-${process.pid}-${++worlds}`
  const once = effectivelyOnce({ namespace, store, events, sweep: false, guard: 'off', resendFor: '1s' })
  await once.migrate()
  const make = (n: number, notBefore?: Date): Promise<unknown> =>
    once.run({ scope: 's', key: `k${n}`, input: null }, async ({ publish }) => {
      for (const id of IDS) await publish('order.made', { id, n }, notBefore ? { notBefore } : {})
    })
  const applied: string[] = []
  const of = (name: string, on: (made: Made) => void = () => {}) =>
    once.consumer(name, { from: once.outbox }, { 'order.made': async ({ data }) => on(data) })
  const fresh = (): ReturnType<typeof of> => of('fresh', ({ id, n }) => void applied.push(`${id}${n}`))
  const all = (...numbers: number[]): string[] => IDS.flatMap((id) => numbers.map((n) => `${id}${n}`))
  return { once, make, of, fresh, applied, all }
}

/** Keeps the order within each aggregate. */
const byAggregate = (applied: readonly string[]): string[] =>
  applied.toSorted((a, b) => ((a[0] as string) < (b[0] as string) ? -1 : a[0] === b[0] ? 0 : 1))

function suite(open: () => Promise<SqlStore<never>>, keepsEvents = false): void {
  // It comes first: no other destination has events that it did not pass. The memory store drops no events.
  const runsAfterDropped = async (): Promise<void> => {
    const { once, make, of, fresh, applied, all } = await world(await open())
    await make(1)
    expect(await of('old').drain()).toBe(3)
    const sweeps = async (): Promise<number> => (swept += (await once.sweep()).events)
    let swept = 0
    await expect.poll(sweeps, { timeout: 15_000, interval: 200 }).toBe(3)
    await make(2)
    await make(3)
    expect(await fresh().drain()).toBe(6)
    expect(byAggregate(applied)).toEqual(all(2, 3))
    await once.close()
  }
  if (!keepsEvents) {
    test('a new consumer runs events whose predecessors were dropped', { timeout: 30_000 }, async () => {
      await expect(runsAfterDropped()).resolves.toBeUndefined()
    })
  }

  test('a new consumer runs events whose predecessors were erased', async () => {
    const { once, make, of, fresh, applied, all } = await world(await open())
    await make(1)
    await make(2)
    const old = of('old')
    expect(await old.drain()).toBe(6)
    const erased = await once.erase({ scope: 'none', aggregates: IDS.map((id) => ({ type: 'order', id })) })
    expect(erased).toMatchObject({ events: 6 })
    await make(3)
    await make(4)
    expect(await fresh().drain()).toBe(6)
    expect(byAggregate(applied)).toEqual(all(3, 4))
    await once.close()
  }, 20_000)

  test('an event waits for a delayed predecessor, also after another process took it over', async () => {
    const { once, make, fresh, applied, all } = await world(await open())
    const consumer = fresh()
    await make(1, new Date(Date.now() + 4_000))
    await consumer.drain()
    await make(2)
    await consumer.start()
    await new Promise((resolve) => setTimeout(resolve, 1_000))
    expect(applied).toEqual([])
    await consumer.stop()
    await consumer.start()
    await expect.poll(() => applied.length, { timeout: 15_000 }).toBe(6)
    expect(byAggregate(applied)).toEqual(all(1, 2))
    await once.close()
  }, 30_000)
}

describe('predecessors that the outbox no longer has, memory', () => {
  suite(async () => memoryStore() as never, true)
})
describeSqlite('predecessors that the outbox no longer has, SQLite', (lab) =>
  suite(async () => (await lab.store()) as never),
)
describePostgres('predecessors that the outbox no longer has, PostgreSQL', (database) =>
  suite(async () => {
    const pool = new pg.Pool({ connectionString: database.url, max: 8 })
    pool.on('error', () => {})
    return pgStore(pool) as never
  }),
)
