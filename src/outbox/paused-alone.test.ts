import { expect, it } from 'vitest'
import { effectivelyOnce, event } from '../index.ts'
import { SENT, type Sink } from '../sink/sink.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import { relaysDied } from '../../test/support/dead-relays.ts'

const events = { made: event<{ id: string }>(({ id }) => id) }

it('a relay that is paused while it sends a suspect alone has nothing to drain, and goes on when it is resumed', async () => {
  const store = memoryStore()
  const once = effectivelyOnce({ namespace: 'paused-alone', store, events, sweep: false, guard: 'off' })
  await once.run({ scope: 's', key: 'x', input: 'x' }, ({ publish }) => publish('made', { id: 'x' }))
  // Relays died while they sent it.
  await relaysDied(store.outbox, { destination: 's', aggregate: 'x', deaths: 3 })

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
