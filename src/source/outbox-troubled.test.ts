import { expect, test } from 'vitest'
import { effectivelyOnce, event } from '../index.ts'
import { systemClock } from '../platform/clock.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import type { AckParams, Outbox } from '../store/outbox.ts'
import { outboxSource } from './outbox.ts'
import type { Delivery, Subscription } from './source.ts'

const events = { made: event<{ id: string }>(({ id }) => id) }

/** A subscription whose acknowledgements pass through `ack`. */
async function world(ack: (params: AckParams, write: Outbox['ack']) => ReturnType<Outbox['ack']>) {
  const store = memoryStore()
  const once = effectivelyOnce({ namespace: 'troubled', store, events, sweep: false })
  const make = (ids: readonly string[], notBefore?: Date): Promise<unknown> =>
    once.run({ scope: 's', key: `k${Math.random()}`, input: null }, async ({ publish }) => {
      for (const id of ids) await publish('made', { id }, notBefore ? { notBefore } : {})
    })
  const inner = store.outbox
  const outbox: Outbox = { ...inner, ack: (params) => ack(params, inner.ack) }
  const surroundings = { clock: systemClock, observe: () => undefined, source: 'test', keptForMs: 60_000 }
  const parts = { ...surroundings, outbox, leaseMs: 60_000, onPublished: () => () => undefined }
  const opened = (): Promise<Subscription> => outboxSource(parts).open({ consumer: 'c' } as never)
  return { make, opened }
}

const received = (from: Subscription): Promise<readonly Delivery[]> =>
  from.receive({ max: 50, waitMs: 200, signal: new AbortController().signal })

test('what was read beside a delayed event is delivered, although the delay could not be written at first', async () => {
  let refused = 0
  const { make, opened } = await world((params, write) => {
    if (params.hold.length > 0 && refused++ === 0) return Promise.reject(new Error('the connection is gone'))
    return write(params)
  })
  await make(['a', 'b', 'c'])
  await make(['late'], new Date(Date.now() + 300))
  await make(['d', 'e'])
  const from = await opened()
  const seen = new Set<string>()
  for (const until = Date.now() + 3_000; seen.size < 6 && Date.now() < until;) {
    const deliveries = await received(from).catch(() => [])
    for (const { aggregate } of deliveries) seen.add(String(aggregate))
    await from.ack(deliveries)
  }
  expect(refused).toBeGreaterThan(0)
  expect([...seen].sort()).toEqual(['a', 'b', 'c', 'd', 'e', 'late'])
  await from.close()
})

test('of cursors that are written at the same time none passes what the other one holds', async () => {
  let open = 0
  let most = 0
  const { make, opened } = await world(async (params, write) => {
    most = Math.max(most, ++open)
    await new Promise((resolve) => setTimeout(resolve, 100))
    return write(params).finally(() => open--)
  })
  const from = await opened()
  await make(Array.from({ length: 20 }, (_, n) => `a${n}`))
  const first = await received(from)
  let receiving: Promise<unknown> = Promise.resolve()
  for (const [n, delivery] of first.entries()) {
    await from.ack([delivery])
    if (n % 4 === 0) await make([`b${n}`], new Date(Date.now() + 60_000))
    receiving = receiving.then(() => received(from))
    await new Promise((resolve) => setTimeout(resolve, 30))
  }
  await from.close()
  await receiving
  expect(first).toHaveLength(20)
  expect(most).toBe(1)
})
