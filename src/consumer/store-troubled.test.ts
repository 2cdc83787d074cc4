import { expect, it, vi } from 'vitest'
import { onceError } from '../errors.ts'
import { effectivelyOnce } from '../once/once.ts'
import type { Signal } from '../observe/signal.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import { memoryBroker } from '../testing/source-contract/memory-broker.ts'

it('a message that the store cannot set aside is tried again, and the trouble is told', async () => {
  const store = memoryStore()
  const away = onceError('ONCE_STORE_UNAVAILABLE')
  let failures = 0
  const park: typeof store.inbox.park = async (params) => {
    if (failures++ < 2) throw away
    return store.inbox.park(params)
  }
  const flawed = Object.create(store, { inbox: { value: Object.create(store.inbox, { park: { value: park } }) } })
  const troubles: Signal[] = []
  const observe = (signal: Signal): void => void (signal.kind === 'troubled' && troubles.push(signal))
  const once = effectivelyOnce({ namespace: 'test', store: flawed, guard: 'off', sweep: false, observe })
  const broker = memoryBroker()
  broker.publish({ id: 'm', aggregate: 'a' })
  const consumer = once.consumer('reader', { from: broker.source }, { 'step.undone': async () => {} })
  await consumer.start()
  await vi.waitFor(() => expect(broker.left).toBe(0), { timeout: 20_000 })
  await consumer.stop()
  const trouble = { kind: 'troubled', task: 'consumer', error: away }
  expect(troubles).toEqual([trouble, trouble])
  const letters = await once.deadLetters.list({ consumer: 'reader' })
  expect(letters).toMatchObject([{ reason: 'unknownType', attempts: 0 }])
  await once.close()
})
