import { expect, test } from 'vitest'
import { effectivelyOnce } from '../index.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import { memoryBroker } from '../testing/source-contract/memory-broker.ts'

test('a letter that fails again is a failure of its redrive, and stays parked', async () => {
  const once = effectivelyOnce({ namespace: 'failed', store: memoryStore(), guard: 'off', sweep: false })
  const broker = memoryBroker()
  const fail = (): Promise<never> => Promise.reject(new Error('the printer is on fire'))
  const consumer = once.consumer('receipts', { from: broker.source, attempts: 1 }, { 'step.made': fail })
  broker.publish({ id: 'm1' })
  await consumer.drain()
  const { id } = await once.redrive.run({ consumer: 'receipts' }, { by: 'ada', why: 'the printer works again' })
  await consumer.start()
  await expect.poll(async () => (await once.redrive.status(id))?.failed, { timeout: 5_000 }).toBe(1)
  await consumer.stop()
  expect(await once.deadLetters.list({ consumer: 'receipts' })).toMatchObject([{ message: 'm1', reason: 'failed' }])
  await once.close()
})
