import { expect, it } from 'vitest'
import { effectivelyOnce, event } from '../index.ts'
import { SENT, type Sink } from '../sink/sink.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import { relaysDied } from '../../test/support/dead-relays.ts'

const events = { made: event<{ id: string }>(({ id }) => id) }
const WAIT_MS = 600

it('a delayed event that was read by relays that died is not given up: nobody has sent it yet', async () => {
  const store = memoryStore()
  const once = effectivelyOnce({ namespace: 'suspect', store, events, sweep: false, guard: 'off' })
  const notBefore = new Date(Date.now() + WAIT_MS)
  await once.run({ scope: 's', key: 'x', input: 'x' }, ({ publish }) => publish('made', { id: 'x' }, { notBefore }))
  // As many relays died as may, and it was the only event that they had read.
  await relaysDied(store.outbox, { destination: 's', aggregate: 'x', deaths: 5 })

  const sentAt: number[] = []
  const sink: Sink = {
    name: 's',
    proves: 'handled',
    dedupes: false,
    orders: true,
    async send(given) {
      sentAt.push(...given.map(() => Date.now()))
      return given.map(() => SENT)
    },
  }
  const running = await once.relay({ to: sink, attempts: 5 }).start()
  await expect.poll(() => sentAt.length, { timeout: 8_000 }).toBe(1)
  expect(sentAt[0]).toBeGreaterThanOrEqual(notBefore.getTime())
  expect(await once.parked.list({ destination: 's' })).toEqual([])
  await running.stop()
  await once.close()
}, 20_000)
