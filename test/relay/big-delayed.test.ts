import pg from 'pg'
import { describe, expect, it } from 'vitest'
import { effectivelyOnce, event } from '../../src/index.ts'
import { RELAY_BATCH_BYTES } from '../../src/limits.ts'
import { createRelay } from '../../src/outbox/relay.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { systemRandom } from '../../src/platform/random.ts'
import { inProcessSink } from '../../src/sink/in-process.ts'
import { outboxSource } from '../../src/source/outbox.ts'
import type { Delivery } from '../../src/source/source.ts'
import { memoryStore } from '../../src/store/memory/memory-store.ts'
import type { Outbox } from '../../src/store/outbox.ts'
import { pgStore } from '../../src/store/postgres/pg.ts'
import type { SqlStore } from '../../src/store/store.ts'
import { describePostgres } from '../support/postgres.ts'
import { describeSqlite } from '../support/sqlite.ts'
import { until } from './world.ts'

const BYTES = 250_000
const EVENTS = 140
const events = { made: event<{ id: string; text: string }>(({ id }) => id) }
let worlds = 0
const pause = (ms: number): Promise<unknown> => new Promise((resolve) => setTimeout(resolve, ms))

/** Large events that are all due in a moment, and an outbox that knows how much was read of them at once. */
async function world(store: SqlStore<never>) {
  const once = effectivelyOnce({
    namespace: `due-${process.pid}-${++worlds}`,
    store,
    events,
    sweep: false,
    guard: 'off',
  })
  await once.migrate()
  const notBefore = new Date(Date.now() + 4_000)
  for (let n = 0; n < EVENTS; n += 20) {
    await once.run({ scope: 's', key: `${Math.random()}`, input: n }, async ({ publish }) => {
      for (let i = n; i < n + 20; i++) await publish('made', { id: `a${i}`, text: 'x'.repeat(BYTES) }, { notBefore })
    })
  }
  const { outbox } = (once as unknown as { core: { namespace: { outbox: Outbox } } }).core.namespace
  const read = { most: 0 }
  const due: Outbox['due'] = async (params) => {
    const found = await outbox.due(params)
    const bytes = found.events.reduce((sum, { payload }) => sum + (payload?.length ?? 0), 0)
    read.most = Math.max(read.most, bytes)
    return found
  }
  return { once, read, outbox: Object.assign(Object.create(outbox) as Outbox, { due }) }
}

const ROOM = RELAY_BATCH_BYTES + BYTES * 2

function suite(open: () => Promise<SqlStore<never>>): void {
  it('a relay reads no more of them at once than there is room for', async () => {
    const { once, read, outbox } = await world(await open())
    const seams = { clock: systemClock, random: systemRandom, observe: () => undefined }
    const sent = new Set<string>()
    const sink = inProcessSink(({ id }) => pause(20).then(() => sent.add(id)))
    const relay = createRelay({ ...seams, outbox, source: 'test', closed: () => false }, { to: sink })
    await relay.start()
    await until(() => sent.size === EVENTS, 40_000).catch(() => {})
    await relay.stop()
    await once.close()
    expect(sent.size).toBe(EVENTS)
    expect(read.most).toBeLessThan(ROOM)
  }, 60_000)

  it('a consumer reads no more of them at once than there is room for', async () => {
    const { once, read, outbox } = await world(await open())
    const parts = { clock: systemClock, observe: () => undefined, source: 'test', keptForMs: 60_000, leaseMs: 30_000 }
    const source = outboxSource({ ...parts, outbox, onPublished: () => () => undefined })
    const from = await source.open({ consumer: 'c' } as never)
    const { signal } = new AbortController()
    const seen = new Set<string>()
    const acks: Promise<unknown>[] = []
    const settle = async (deliveries: readonly Delivery[]): Promise<void> => {
      await pause(800)
      await from.ack(deliveries)
    }
    for (const end = Date.now() + 40_000; seen.size < EVENTS && Date.now() < end;) {
      const deliveries = await from.receive({ max: 256, waitMs: 200, signal })
      for (const { id } of deliveries) seen.add(id)
      acks.push(settle(deliveries))
    }
    await Promise.all(acks)
    await from.close()
    await once.close()
    expect(seen.size).toBe(EVENTS)
    expect(read.most).toBeLessThan(ROOM)
  }, 60_000)
}

describe('large delayed events, memory', () => {
  suite(async () => memoryStore() as never)
})
describeSqlite('large delayed events, SQLite', (lab) => suite(async () => (await lab.store()) as never))
describePostgres('large delayed events, PostgreSQL', (database) =>
  suite(async () => {
    const pool = new pg.Pool({ connectionString: database.url, max: 5 })
    pool.on('error', () => {})
    return pgStore(pool) as never
  }),
)
