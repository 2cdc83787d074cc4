import { afterEach, expect, test } from 'vitest'
import { effectivelyOnce, event, type Relay } from '../index.ts'
import { SHARDS } from '../limits.ts'
import type { Sink } from '../sink/sink.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import type { MemoryStore } from '../store/memory/memory-store.ts'
import type { Outbox } from '../store/outbox.ts'
import { until } from '../../test/support/until.ts'

const events = { made: event<{ id: string; n: number }>(({ id }) => id) }

let relay: Relay | undefined
afterEach(() => relay?.stop())

test('of a shard that was lost nothing is sent before what was under way, and was not sent', async () => {
  const memory = memoryStore()
  const inner = memory.outbox
  const taken: { shard: number; token: number }[] = []
  let lost = false
  let read = Promise.resolve()
  let goOn = (): void => {}
  const outbox: Outbox = {
    ...inner,
    async lease(params) {
      const leased = await inner.lease(params)
      taken.push(...leased)
      return leased
    },
    // The loop waits here, and has not heard yet what the heartbeat knows.
    async read(params) {
      await read
      return inner.read(params)
    },
    async beat(params) {
      const beat = await inner.beat(params)
      lost = params.leases.length > 0 && beat.ours.length === 0
      return beat
    },
  }
  const calls: number[][] = []
  let reject = (_: Error): void => {}
  const sink: Sink = {
    name: 'sink',
    proves: 'accepted',
    dedupes: false,
    orders: false,
    send(sent) {
      calls.push(sent.map(({ data }) => (data as { n: number }).n))
      read = new Promise((resolve) => (goOn = resolve))
      return new Promise((_, rejects) => (reject = rejects))
    },
  }
  const store: MemoryStore = { ...memory, outbox }
  const once = effectivelyOnce({ namespace: 'given-up', store, events, sweep: false })
  await once.run({ scope: 's', key: 'k', input: null }, async ({ publish }) => {
    for (const n of [1, 2]) for (const id of ['a', 'b']) await publish('made', { id, n })
  })
  relay = await once.relay({ to: sink, lease: '600ms' }).start()
  await until(() => calls.length === 1)
  await inner.release({ destination: 'sink', relay: 'thief', leases: taken, leaving: false })
  await inner.lease({ destination: 'sink', relay: 'thief', leaseMs: 60_000, limit: SHARDS })
  await until(() => lost)
  reject(new Error('reset'))
  await new Promise((resolve) => setTimeout(resolve, 50))
  expect(calls).toEqual([[1, 1]])
  goOn()
})
