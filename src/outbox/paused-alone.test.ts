import { expect, it } from 'vitest'
import { effectivelyOnce, event } from '../index.ts'
import { SENT, type Sink } from '../sink/sink.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import { shardOf } from './publisher.ts'

const events = { made: event<{ id: string }>(({ id }) => id) }

it('a relay that is paused while it sends a suspect alone has nothing to drain, and goes on when it is resumed', async () => {
  const store = memoryStore()
  const once = effectivelyOnce({ namespace: 'paused-alone', store, events, sweep: false, guard: 'off' })
  await once.run({ scope: 's', key: 'x', input: 'x' }, ({ publish }) => publish('made', { id: 'x' }))
  const { outbox } = store
  // Relays died while they sent it.
  await outbox.open({ destination: 's' })
  const relay = '00000000-0000-4000-8000-000000000001'
  const leased = await outbox.lease({ destination: 's', relay, leaseMs: 1, limit: 64 })
  const of = leased.find(({ shard }) => shard === shardOf('x'))
  const ack = { shard: of?.shard ?? 0, token: of?.token ?? 0, cursor: 0, segment: 0, counted: 0, attempt: 3 }
  await outbox.ack({ destination: 's', acks: [{ ...ack, tryingTo: 1_000 }], hold: [] })

  let calls = 0
  let broken = true
  const sink: Sink = {
    name: 's',
    proves: 'handled',
    dedupes: false,
    orders: true,
    async send(given) {
      calls++
      if (broken) throw new Error('nobody is there')
      return given.map(() => SENT)
    },
  }
  const running = await once.relay({ to: sink }).start()
  await expect.poll(() => calls, { timeout: 8_000 }).toBeGreaterThan(0)
  running.pause()
  const drained = await Promise.race([
    running.drain(),
    new Promise((resolve) => setTimeout(resolve, 6_000, 'it still drains')),
  ])
  expect(drained).toBe(0)
  broken = false
  running.resume()
  const before = calls
  await expect.poll(() => calls, { timeout: 8_000 }).toBeGreaterThan(before)
  expect(await running.drain()).toBeLessThanOrEqual(1)
  expect(await once.parked.list({ destination: 's' })).toEqual([])
  await running.stop()
  await once.close()
}, 40_000)
