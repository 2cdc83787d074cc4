import { expect, it } from 'vitest'
import { effectivelyOnce, event } from '../index.ts'
import { SENT, type Sink } from '../sink/sink.ts'
import { memoryStore, type MemoryStore } from '../store/memory/memory-store.ts'
import type { Outbox } from '../store/outbox.ts'
import { relaysDied } from '../../test/support/dead-relays.ts'

const events = { made: event<{ id: string }>(({ id }) => id) }
const WAIT_MS = 600
const HOUR_MS = 3_600_000

/** A relay that starts after as many relays died as may, and a delayed event was the only one that they had read. */
async function afterDeaths(notBefore: Date) {
  const memory = memoryStore()
  const { ack } = memory.outbox
  const seen = { sentAt: [] as number[], held: [] as string[] }
  const outbox: Outbox = {
    ...memory.outbox,
    async ack(params) {
      const acked = await ack(params)
      seen.held.push(...params.hold.map(({ state }) => state))
      return acked
    },
  }
  const store: MemoryStore = { ...memory, outbox }
  const once = effectivelyOnce({ namespace: 'suspect', store, events, sweep: false, guard: 'off' })
  const publishing = (key: string, options: { notBefore?: Date }): Promise<unknown> =>
    once.run({ scope: 's', key, input: key }, ({ publish }) => publish('made', { id: 'x' }, options))
  await publishing('x', { notBefore })
  await relaysDied(outbox, { destination: 's', aggregate: 'x', deaths: 5 })
  const sink: Sink = {
    name: 's',
    proves: 'handled',
    dedupes: false,
    orders: true,
    async send(given) {
      seen.sentAt.push(...given.map(() => Date.now()))
      return given.map(() => SENT)
    },
  }
  const running = await once.relay({ to: sink, attempts: 5 }).start()
  const end = async (): Promise<void> => {
    expect(await once.parked.list({ destination: 's' })).toEqual([])
    await running.stop()
    await once.close()
  }
  return { seen, publishing, end }
}

it('a delayed event that was read by relays that died is not given up: nobody has sent it yet', async () => {
  const notBefore = new Date(Date.now() + WAIT_MS)
  const { seen, end } = await afterDeaths(notBefore)
  await expect.poll(() => seen.sentAt.length, { timeout: 8_000 }).toBe(1)
  expect(seen.sentAt[0]).toBeGreaterThanOrEqual(notBefore.getTime())
  await end()
}, 20_000)

it('it holds up no later event of its aggregate', async () => {
  const { seen, publishing, end } = await afterDeaths(new Date(Date.now() + HOUR_MS))
  await expect.poll(() => seen.held, { timeout: 8_000 }).toEqual(['delayed'])
  await publishing('y', {})
  await expect.poll(() => seen.sentAt.length, { timeout: 8_000 }).toBe(1)
  expect(seen.held).toEqual(['delayed'])
  await end()
}, 20_000)
