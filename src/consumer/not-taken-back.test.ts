import { afterEach, expect, it, vi } from 'vitest'
import { effectivelyOnce, event, type Signal } from '../index.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import { memoryBroker, type MemoryBroker } from '../testing/source-contract/memory-broker.ts'

const events = { 'step.made': event<{ id: string }>(({ id }) => id) }
const signals: Signal[] = []
const observe = (signal: Signal): void => void signals.push(signal)
const open = () =>
  effectivelyOnce({ namespace: 'test', store: memoryStore(), events, guard: 'off', sweep: false, observe })
let once: ReturnType<typeof open>
const ends: (() => unknown)[] = []

afterEach(async () => {
  for (const end of ends.splice(0)) await end()
  await once.close()
  signals.length = 0
})

/** Its channel lives, and takes nothing back so many times. What nobody settles comes again only when the channel ends. */
function refusing(broker: MemoryBroker, times: number, holdsFor: `${number}ms` | 'connection' = 'connection') {
  const refused: string[][] = []
  const source: typeof broker.source = {
    ...broker.source,
    holdsFor,
    async open(params) {
      const subscription = await broker.source.open(params)
      return {
        ...subscription,
        async giveBack(deliveries, options) {
          if (refused.length >= times) return subscription.giveBack(deliveries, options)
          refused.push(deliveries.map(({ id }) => id))
          throw new Error('not taken back')
        },
      }
    },
  }
  return { source, refused }
}

const returned = (): number =>
  signals.reduce((sum, signal) => sum + (signal.kind === 'returned' ? signal.messages : 0), 0)

it('a paused consumer keeps what its broker does not take back, and tries again', async () => {
  once = open()
  const broker = memoryBroker()
  const { source, refused } = refusing(broker, 2)
  let release = (): void => {}
  const blocked = new Promise<void>((resolve) => (release = resolve))
  const ran: string[] = []
  const run = async ({ id }: { id: string }): Promise<void> => {
    ran.push(id)
    if (id === 'a') await blocked
  }
  const consumer = once.consumer('reader', { from: source, batch: 1, concurrency: 1 }, { 'step.made': run })
  await consumer.start()
  ends.push(() => consumer.stop())
  broker.publish({ id: 'a', aggregate: 'a' }, { id: 'b', aggregate: 'b' })
  await vi.waitFor(() => expect(ran).toEqual(['a']))
  consumer.pause()
  await vi.waitFor(() => expect(refused).toEqual([['b']]), { timeout: 3_000 })
  release()
  await vi.waitFor(() => expect(broker.left).toBe(1))
  expect(returned()).toBe(0)
  // Resumed, it runs what it kept.
  consumer.resume()
  await vi.waitFor(() => expect(ran).toEqual(['a', 'b']), { timeout: 3_000 })
  await vi.waitFor(() => expect(broker.left).toBe(0))
})

it('what a paused consumer could not give back at once is run by another one', async () => {
  once = open()
  const broker = memoryBroker()
  const { source, refused } = refusing(broker, 1)
  const ran: string[] = []
  const blocked = new Promise<void>((resolve) => ends.push(resolve))
  const of = { batch: 1, concurrency: 1 }
  const consumer = once.consumer('reader', { from: source, ...of }, { 'step.made': () => blocked })
  await consumer.start()
  broker.publish({ id: 'a', aggregate: 'a' }, { id: 'b', aggregate: 'b' })
  await vi.waitFor(() => expect(broker.left).toBe(2))
  await new Promise((resolve) => setTimeout(resolve, 50))
  consumer.pause()
  await vi.waitFor(() => expect(refused).toEqual([['b']]), { timeout: 3_000 })
  const other = once.consumer('reader 2', { from: broker.source }, { 'step.made': async ({ id }) => void ran.push(id) })
  await other.start()
  ends.push(
    () => other.stop(),
    () => consumer.stop(),
  )
  await vi.waitFor(() => expect(ran).toEqual(['b']), { timeout: 5_000 })
  expect(returned()).toBe(1)
})

it('a message that came before its predecessor is not lost with a broker that does not take it back', async () => {
  once = open()
  const broker = memoryBroker()
  const { source, refused } = refusing(broker, 1, '200ms')
  const ran: string[] = []
  const consumer = once.consumer('reader', { from: source }, { 'step.made': async ({ id }) => void ran.push(id) })
  await consumer.start()
  ends.push(() => consumer.stop())
  broker.publish({ id: 'b', aggregate: 'x', previous: 'a' })
  await vi.waitFor(() => expect(refused).toEqual([['b']]), { timeout: 5_000 })
  broker.publish({ id: 'a', aggregate: 'x', previous: '' })
  await vi.waitFor(() => expect(ran).toEqual(['a', 'b']), { timeout: 5_000 })
  await vi.waitFor(() => expect(broker.left).toBe(0))
})

it('what waits behind a message that failed is not lost with a broker that does not take it back', async () => {
  once = open()
  const broker = memoryBroker()
  // Nothing may be held until its next attempt.
  const { source, refused } = refusing(broker, 1, '1ms')
  const ran: string[] = []
  const run = async ({ id }: { id: string }): Promise<void> => {
    ran.push(id)
    if (ran.length === 1) throw new Error('not yet')
  }
  broker.publish({ id: 'a', aggregate: 'x' }, { id: 'b', aggregate: 'x' })
  const consumer = once.consumer('reader', { from: source, batch: 1, concurrency: 1 }, { 'step.made': run })
  await consumer.start()
  ends.push(() => consumer.stop())
  await vi.waitFor(() => expect(refused).toEqual([['a', 'b']]), { timeout: 5_000 })
  await vi.waitFor(() => expect(ran).toEqual(['a', 'a', 'b']), { timeout: 5_000 })
  await vi.waitFor(() => expect(broker.left).toBe(0))
})
