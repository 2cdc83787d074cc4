import { expect, test } from 'vitest'
import { onceError } from '../errors.ts'
import { effectivelyOnce, type Signal } from '../index.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import type { MemoryTx } from '../store/memory/database/memory-tx.ts'
import type { Inbox } from '../store/inbox.ts'
import type { Redrives } from '../store/redrives.ts'
import { memoryBroker } from '../testing/source-contract/memory-broker.ts'

const BY = { by: 'ada', why: 'the printer works again' }
const CONSUMER = 'receipts'

/** One letter, redriven; the reply of its commit is lost, and its redrive is paused before anybody can look. */
async function redriveInDoubt({ looksThatFail = 0, resumes = false }): Promise<{ told: number; applied: number }> {
  const store = memoryStore()
  const real = { inbox: store.inbox, redrives: store.redrives }
  const signals: Signal[] = []
  let broken = true
  let lose = false
  let failing = looksThatFail
  const inbox: Inbox<MemoryTx> = {
    ...real.inbox,
    async take(params) {
      const taken = await real.inbox.take(params)
      if (!params.redrive || !lose) return taken
      const { session } = taken
      const complete: typeof session.complete = async (of) => {
        await session.complete(of)
        lose = false
        await once.redrive.pause(id, BY)
        throw onceError('ONCE_COMMIT_UNKNOWN')
      }
      return { ...taken, session: Object.create(session, { complete: { value: complete } }) as typeof session }
    },
  }
  const redrives: Redrives<MemoryTx> = {
    ...real.redrives,
    async items(params) {
      if (params.outcomes?.includes('applied') && failing-- > 0) throw onceError('ONCE_STORE_UNAVAILABLE')
      return real.redrives.items(params)
    },
  }
  const once = effectivelyOnce({
    namespace: 'unsure',
    store: Object.create(store, { inbox: { value: inbox }, redrives: { value: redrives } }) as typeof store,
    guard: 'off',
    sweep: false,
    observe: (signal) => void signals.push(signal),
  })
  const broker = memoryBroker()
  const consumer = once.consumer(
    CONSUMER,
    { from: broker.source, attempts: 1 },
    {
      'step.made': async (event, { tx }) => {
        if (broken) throw new Error('the printer is on fire')
        await tx.insert('applied', { id: event.id })
      },
    },
  )
  broker.publish({ id: 'm1' })
  await consumer.drain()
  broken = false
  lose = true
  const { id } = await once.redrive.run({ consumer: CONSUMER }, { ...BY, canary: 0 })
  await consumer.start()
  await expect.poll(() => lose, { timeout: 5_000 }).toBe(false)
  await expect.poll(async () => (await once.redrive.status(id))?.state, { timeout: 5_000 }).toBe('paused')
  if (resumes) {
    await once.redrive.resume(id, BY)
    await expect.poll(async () => (await once.redrive.status(id))?.state, { timeout: 5_000 }).toBe('done')
  }
  await consumer.stop()
  await once.close()
  const told = signals.reduce((sum, signal) => sum + (signal.kind === 'consumed' ? signal.applied : 0), 0)
  return { told, applied: store.rows('applied').length }
}

test('a letter whose reply was lost is told of, though its redrive is paused', async () => {
  expect(await redriveInDoubt({})).toEqual({ told: 1, applied: 1 })
})

test('it is told of once, when the redrive goes on', async () => {
  expect(await redriveInDoubt({ resumes: true })).toEqual({ told: 1, applied: 1 })
})

test('and when the store cannot be asked at first', async () => {
  expect(await redriveInDoubt({ looksThatFail: 3 })).toEqual({ told: 1, applied: 1 })
})
