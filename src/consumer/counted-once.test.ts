import { expect, it, vi } from 'vitest'
import { onceError } from '../errors.ts'
import { effectivelyOnce } from '../once/once.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import { memoryBroker } from '../testing/source-contract/memory-broker.ts'

it('an attempt is counted once, although the store is in trouble each time after it wrote the count', async () => {
  const store = memoryStore()
  let failures = 0
  const trying: typeof store.inbox.trying = async (params) => {
    const tries = await store.inbox.trying(params)
    if (failures++ < 4) throw onceError('ONCE_STORE_UNAVAILABLE')
    return tries
  }
  const inbox = { value: Object.create(store.inbox, { trying: { value: trying } }) }
  const flawed = Object.create(store, { inbox }) as typeof store
  const once = effectivelyOnce({ namespace: 'test', store: flawed, guard: 'off', sweep: false })
  const broker = memoryBroker()
  broker.publish({ id: 'm' })
  const { signal } = new AbortController()
  const positions = { read: async () => new Map<string, string>() }
  const params = { consumer: 'reader', signal, prefetch: 1, positions, warn: () => {}, advise: () => {} }
  const earlier = await broker.source.open(params)
  await earlier.receive({ max: 1, waitMs: 100, signal })
  await earlier.close()
  const ran: number[] = []
  const handlers = { 'step.made': async (_event: unknown, { attempt }: { attempt: number }) => void ran.push(attempt) }
  const consumer = once.consumer('reader', { from: broker.source, attempts: 3 }, handlers)
  await consumer.start()
  await vi.waitFor(() => expect(broker.left).toBe(0), { timeout: 20_000 })
  await consumer.stop()
  expect([await once.deadLetters.list({ consumer: 'reader' }), ran]).toEqual([[], [1]])
  await once.close()
})
