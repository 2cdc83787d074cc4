import { expect, test } from 'vitest'
import { effectivelyOnce } from '../index.ts'
import { systemClock } from '../platform/clock.ts'
import { REDRIVE_LEASE_MS } from '../limits.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import { memoryBroker } from '../testing/source-contract/memory-broker.ts'

const pause = (ms: number): Promise<void> => new Promise((resolve) => systemClock.after(ms, resolve))

test.each([
  ['a letter that failed', 'step.made'],
  ['a letter that cannot run', 'step.unknown'],
])('a redrive keeps its lease while the result of %s is written', async (_name, type) => {
  const store = memoryStore()
  let [beats, beatsMeanwhile] = [0, 0]
  const redrives: typeof store.redrives = {
    ...store.redrives,
    beat: (params) => {
      beats++
      return store.redrives.beat(params)
    },
    async decide(params) {
      const before = beats
      await pause(REDRIVE_LEASE_MS / 2)
      beatsMeanwhile = beats - before
      return store.redrives.decide(params)
    },
  }
  const slow = Object.create(store, { redrives: { value: redrives } }) as typeof store
  const once = effectivelyOnce({ namespace: 'kept', store: slow, guard: 'off', sweep: false })
  const broker = memoryBroker()
  const fail = (): Promise<never> => Promise.reject(new Error('the printer is on fire'))
  const consumer = once.consumer('receipts', { from: broker.source, attempts: 1 }, { 'step.made': fail })
  broker.publish({ id: 'm1', type })
  await consumer.drain()
  const { id } = await once.redrive.run({ consumer: 'receipts' }, { by: 'ada', why: 'the printer works again' })
  await consumer.start()
  await expect.poll(async () => (await once.redrive.status(id))?.failed, { timeout: 10_000 }).toBe(1)
  await consumer.stop()
  expect(beatsMeanwhile).toBeGreaterThan(0)
  await once.close()
})
