import { afterEach, expect, it } from 'vitest'
import { effectivelyOnce, event, inProcessSink, type Once } from '../index.ts'
import { memoryStore, type MemoryStore } from '../store/memory/memory-store.ts'
import type { MemoryTx } from '../store/memory/database/memory-tx.ts'
import { systemClock } from '../platform/clock.ts'
import { outboxSource } from '../source/outbox.ts'
import type { Outbox } from '../store/outbox.ts'
import { until } from '../../test/support/until.ts'

const events = { made: event<{ id: string; n: number }>(({ id }) => id) }
const WAIT_MS = 1_200
const ends: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end()
})

/** Many delayed events of one aggregate, then one of another. */
async function crowd(
  many: number,
): Promise<{ store: MemoryStore; once: Once<MemoryTx, typeof events>; ids: string[] }> {
  const store = memoryStore()
  const once = effectivelyOnce({ namespace: 'crowd', store, events, sweep: false, guard: 'off' })
  const at = Date.now() + WAIT_MS
  const ids = await once.run({ scope: 's', key: 'k', input: null }, async ({ publish }) => {
    const made: string[] = []
    for (let n = 0; n < many; n++) made.push(await publish('made', { id: 'a', n }, { notBefore: new Date(at) }))
    await publish('made', { id: 'b', n: -1 }, { notBefore: new Date(at + 50) })
    return made
  })
  return { store, once, ids }
}

/** Until it is told to end. */
function cancelling(store: MemoryStore, once: Once<MemoryTx, typeof events>, ids: readonly string[]): () => void {
  let end = (): void => undefined
  const ended = new Promise<void>((resolve) => (end = resolve))
  const done = store.transaction(async (tx) => {
    for (const id of ids) expect(await once.join(tx).cancel(id)).toBe('cancelled')
    await ended
  })
  ends.push(async () => (end(), done))
  return end
}

it('who cancels one of many events of an aggregate does not hold up the relay for the other aggregates', async () => {
  const { store, once, ids } = await crowd(200)
  const sent: number[] = []
  const relay = await once.relay({ to: inProcessSink(({ data }) => void sent.push((data as { n: number }).n)) }).start()
  ends.push(() => relay.stop())
  const end = cancelling(store, once, ids.slice(0, 1))
  await until(() => sent.includes(-1), WAIT_MS + 4_000)
  end()
  await until(() => sent.length === 200, 8_000)
  expect(sent.toSorted((a, b) => a - b)).toEqual([-1, ...ids.keys()].filter((n) => n !== 0))
}, 30_000)

it('many delayed events of one aggregate do not hold up the others while a slow sink takes them', async () => {
  const { once } = await crowd(400)
  const sent: number[] = []
  const slow = inProcessSink(async ({ data }) => {
    const { n } = data as { n: number }
    sent.push(n)
    await new Promise((resolve) => setTimeout(resolve, n < 0 ? 0 : 20))
  })
  const relay = await once.relay({ to: slow }).start()
  ends.push(() => relay.stop())
  await until(() => sent.includes(-1), WAIT_MS + 3_000)
  expect(sent.length).toBeLessThan(150)
}, 30_000)

it('a consumer does not wait between delayed events that are due', async () => {
  const { once } = await crowd(500)
  const applied: number[] = []
  const handlers = { made: async ({ data }: { data: { n: number } }) => void applied.push(data.n) }
  const consumer = once.consumer('c', { from: once.outbox }, handlers)
  await consumer.start()
  ends.push(() => consumer.stop())
  await until(() => applied.length >= 501, WAIT_MS + 4_000)
  expect(applied).toHaveLength(501)
}, 30_000)

it('who cancels does not hold up the other aggregates of a consumer', async () => {
  const { store, once, ids } = await crowd(600)
  const applied: number[] = []
  const handlers = { made: async ({ data }: { data: { n: number } }) => void applied.push(data.n) }
  const consumer = once.consumer('c', { from: once.outbox }, handlers)
  await consumer.start()
  ends.push(() => consumer.stop())
  const end = cancelling(store, once, ids.slice(0, 1))
  await until(() => applied.includes(-1), WAIT_MS + 4_000)
  end()
  await until(() => applied.length >= 600, 8_000)
  expect(applied.includes(0)).toBe(false)
}, 30_000)

it('who takes few at a time looks for others than those that are about to be cancelled, and not all the time', async () => {
  const { store, once, ids } = await crowd(3)
  let looks = 0
  const inner = store.outbox
  const due: Outbox['due'] = (params) => (looks++, inner.due(params))
  const surroundings = { clock: systemClock, observe: () => undefined, source: 'test', keptForMs: 60_000 }
  const parts = { ...surroundings, outbox: { ...inner, due }, leaseMs: 5_000, onPublished: () => () => undefined }
  const from = await outboxSource(parts).open({ consumer: 'c' } as never)
  ends.push(() => from.close())
  cancelling(store, once, ids)
  const { signal } = new AbortController()
  const [found] = await from.receive({ max: 1, waitMs: WAIT_MS + 3_000, signal })
  expect(found).toMatchObject({ aggregate: 'b' })
  looks = 0
  expect(await from.receive({ max: 1, waitMs: 1_000, signal })).toEqual([])
  expect(looks).toBeLessThan(30)
}, 30_000)
