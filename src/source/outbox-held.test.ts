import { expect, test } from 'vitest'
import { effectivelyOnce, event } from '../index.ts'
import { systemClock } from '../platform/clock.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import type { Outbox } from '../store/outbox.ts'
import { outboxSource } from './outbox.ts'
import type { Delivery, Subscription } from './source.ts'

const LEASE_MS = 500
const events = { made: event<{ id: string }>(({ id }) => id) }

test('a held event that may have ended its process comes back as redelivered', async () => {
  const store = memoryStore()
  const once = effectivelyOnce({ namespace: 'held', store, events, sweep: false })
  await once.run({ scope: 's', key: 'k', input: null }, ({ publish }) =>
    publish('made', { id: 'a' }, { notBefore: new Date(Date.now() + 50) }),
  )
  const opened = async (alive: () => boolean): Promise<Subscription> => {
    const inner = store.outbox
    const beat: Outbox['beat'] = (params) => (alive() ? inner.beat(params) : new Promise(() => {}))
    const surroundings = { clock: systemClock, observe: () => undefined, source: 'test', keptForMs: 60_000 }
    const parts = { ...surroundings, outbox: { ...inner, beat }, leaseMs: LEASE_MS, onPublished: () => () => undefined }
    return outboxSource(parts).open({ consumer: 'c' } as never)
  }
  const received = async (from: Subscription): Promise<Delivery | undefined> => {
    const { signal } = new AbortController()
    return (await from.receive({ max: 10, waitMs: 5_000, signal }))[0]
  }
  let alive = true
  const first = await opened(() => alive)
  expect(await received(first)).toMatchObject({ held: true, redelivered: false })
  // It ends here, and says nothing more.
  alive = false
  await new Promise((resolve) => setTimeout(resolve, LEASE_MS * 1.5))
  const second = await opened(() => true)
  expect(await received(second)).toMatchObject({ held: true, redelivered: true })
  await second.close()
  const third = await opened(() => true)
  // Given back in good order: nothing is held against it.
  expect(await received(third)).toMatchObject({ held: true, redelivered: false })
  await third.close()
})
