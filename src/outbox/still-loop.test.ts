import { afterEach, expect, it } from 'vitest'
import { until } from '../../test/support/until.ts'
import { systemClock } from '../platform/clock.ts'
import { outboxSource } from '../source/outbox.ts'
import type { Subscription } from '../source/source.ts'
import { effectivelyOnce, event, inProcessSink, type Once, type Signal } from '../index.ts'
import { MemoryDatabase } from '../store/memory/database/database.ts'
import { memoryStore, type MemoryStore } from '../store/memory/memory-store.ts'
import type { MemoryTx } from '../store/memory/database/memory-tx.ts'

const events = { made: event<{ id: string }>(({ id }) => id) }
const LEASE = '500ms'
const AGGREGATES = 40

const ends: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end()
})

type Instance = Once<MemoryTx, typeof events>

function open(store: MemoryStore, signals: Signal[] = []): Instance {
  const observe = (signal: Signal): void => void signals.push(signal)
  const once = effectivelyOnce({ namespace: 'still', store, events, sweep: false, guard: 'off', observe })
  ends.push(() => once.close({ within: '0ms' }))
  return once
}

/** Reads on this store may stop getting an answer, as on a connection that a firewall dropped. Heartbeats go on. */
function stopping(database: MemoryDatabase): { store: MemoryStore; stop(): void } {
  const store = memoryStore({ database })
  const { outbox } = store
  let stopped = false
  const read: typeof outbox.read = (params) => (stopped ? new Promise(() => {}) : outbox.read(params))
  return { store: { ...store, outbox: { ...outbox, read } }, stop: () => (stopped = true) }
}

async function publish(once: Instance): Promise<void> {
  await once.run({ scope: 's', key: 'many', input: null }, async ({ publish: add }) => {
    for (let n = 0; n < AGGREGATES; n++) await add('made', { id: `aggregate ${n}` })
  })
}

const present = (database: MemoryDatabase): number => {
  const now = database.now()
  const holders = database.shards.rows(null).filter(([, { leaseUntil }]) => leaseUntil > now)
  return holders.length
}

it('a relay whose statement gets no answer leaves its shards to relays that work, and says so', async () => {
  const database = new MemoryDatabase()
  const { store, stop } = stopping(database)
  const signals: Signal[] = []
  const still = open(store, signals)
  const well = open(memoryStore({ database }))
  const sent = new Set<string>()
  const to = inProcessSink(({ subject }) => void sent.add(subject), { name: 'still' })
  await still.relay({ to, lease: LEASE }).start()
  await well.relay({ to, lease: LEASE }).start()
  await until(() => present(database) === 64, 5_000)
  stop()
  await new Promise((resolve) => setTimeout(resolve, 200))
  await publish(well)
  await until(() => sent.size === AGGREGATES, 15_000)
  const told = signals.flatMap((signal) => (signal.kind === 'troubled' ? [String(signal.error)] : []))
  expect(told.filter((line) => line.includes('the database has not answered'))).toHaveLength(1)
}, 40_000)

it('a consumer of the outbox whose statement gets no answer leaves its shards to others', async () => {
  const database = new MemoryDatabase()
  const { store, stop } = stopping(database)
  const well = memoryStore({ database })
  const { signal } = new AbortController()
  const subscribe = async (of: MemoryStore): Promise<Subscription> => {
    const parts = {
      outbox: of.outbox,
      clock: systemClock,
      observe: () => {},
      source: 'still',
      leaseMs: 500,
      keptForMs: 1e6,
    }
    const subscription = await outboxSource({ ...parts, onPublished: () => () => {} }).open({ consumer: 'c' } as never)
    ends.push(() => subscription.close())
    return subscription
  }
  const [first, second] = [await subscribe(store), await subscribe(well)]
  const found = new Set<string>()
  const receive = async (from: Subscription): Promise<void> => {
    for (const { aggregate } of await from.receive({ max: 100, waitMs: 100, signal })) found.add(String(aggregate))
  }
  for (let round = 0; round < 10; round++) await Promise.all([receive(first), receive(second)])
  stop()
  void receive(first)
  await publish(open(well))
  const deadline = performance.now() + 15_000
  while (found.size < AGGREGATES && performance.now() < deadline) await receive(second)
  expect(found.size).toBe(AGGREGATES)
}, 40_000)
