import { expect, it, vi } from 'vitest'
import { effectivelyOnce } from '../once/once.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import { memoryBroker } from '../testing/source-contract/memory-broker.ts'

const WAITS_MS_MAX = 2_000

it('many messages that fail alike hold up nobody else', { timeout: 60_000 }, async () => {
  const settings = { namespace: 'test', guard: 'off', sweep: false, observe: () => {} } as const
  const once = effectivelyOnce({ ...settings, store: memoryStore() })
  const broker = memoryBroker()
  let failures = 0
  /** Until the last run: in a batch with one that fails, it runs again. */
  const waitedMs = new Map<string, number>()
  const publishedAt = new Map<string, number>()
  const consumer = once.consumer(
    'reader',
    { from: broker.source },
    {
      'step.made': async ({ id }) => {
        const at = publishedAt.get(id)
        if (at === undefined) {
          failures++
          throw new Error('the order has no address')
        }
        waitedMs.set(id, performance.now() - at)
      },
    },
  )
  await consumer.start()
  for (let n = 0; n < 50; n++) broker.publish({ id: `poison ${n}`, aggregate: `poison ${n}` })
  await vi.waitFor(() => expect(failures).toBeGreaterThan(20), { timeout: 10_000 })
  for (let n = 0; n < 6; n++) {
    const id = `good ${n}`
    publishedAt.set(id, performance.now())
    broker.publish({ id, aggregate: id })
    await new Promise((resolve) => setTimeout(resolve, 1_000))
  }
  await vi.waitFor(() => expect(broker.left).toBe(50), { timeout: WAITS_MS_MAX })
  await consumer.stop()
  expect(waitedMs.size).toBe(6)
  expect(Math.max(...waitedMs.values())).toBeLessThan(WAITS_MS_MAX)
})
