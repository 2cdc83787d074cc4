import { afterEach, expect, it, vi } from 'vitest'
import { effectivelyOnce, event } from '../index.ts'
import { systemClock } from '../platform/clock.ts'
import { outboxSource } from '../source/outbox.ts'
import type { Subscription } from '../source/source.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import type { Outbox } from '../store/outbox.ts'
import { memoryBroker } from '../testing/source-contract/memory-broker.ts'

const events = { made: event<{ n: number }>(({ n }) => `a${n}`) }
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))
const closing: (() => Promise<unknown>)[] = []

afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})

type Receive = Subscription['receive']

/** A consumer of a broker whose subscription `change` has changed. */
function world(change: (subscription: Subscription, receive: Receive) => Partial<Subscription> = () => ({})) {
  const broker = memoryBroker()
  const { source } = broker
  const from: typeof source = {
    ...source,
    async open(params) {
      const subscription = await source.open(params)
      const changed = change(subscription, subscription.receive.bind(subscription))
      return Object.defineProperties(subscription, Object.getOwnPropertyDescriptors(changed))
    },
  }
  const troubles: string[] = []
  const once = effectivelyOnce({
    namespace: 'test',
    store: memoryStore(),
    guard: 'off',
    sweep: false,
    observe: (signal) => void (signal.kind === 'troubled' && troubles.push(String(signal.error))),
  })
  closing.push(() => once.close())
  const applied: string[] = []
  const consumer = once.consumer('reader', { from }, { 'step.made': async ({ id }) => void applied.push(id) })
  return { broker, consumer, applied, troubles }
}

it('a consumer that runs goes on after a read has failed while a drain waited', async () => {
  let isDown = false
  let failures = 0
  let begun = 0
  const { broker, consumer, applied, troubles } = world((_, receive) => ({
    receive(params) {
      begun++
      if (!isDown) return receive(params)
      isDown = ++failures < 2
      return Promise.reject(new Error('the broker is away'))
    },
  }))
  await consumer.start()
  await vi.waitFor(() => expect(begun).toBeGreaterThan(0))
  isDown = true
  broker.publish({ id: 'before' })
  await consumer.drain()
  expect(applied).toEqual(['before'])
  expect(troubles).toEqual(['Error: the broker is away', 'Error: the broker is away'])
  broker.publish({ id: 'after' })
  await vi.waitFor(() => expect(applied).toEqual(['before', 'after']), { timeout: 3_000 })
})

it('a consumer is not idle because the read failed that was under way when the drain began', async () => {
  let fail: ((error: Error) => void) | undefined
  const { broker, consumer, applied } = world((_, receive) => ({
    receive(params) {
      if (fail) return receive(params)
      return new Promise((_resolve, reject) => (fail = reject))
    },
  }))
  await consumer.start()
  await vi.waitFor(() => expect(fail).toBeDefined())
  const drain = consumer.drain()
  broker.publish({ id: 'before' })
  await pause(1)
  fail?.(new Error('the broker is away'))
  expect(await drain).toBe(1)
  expect(applied).toEqual(['before'])
})

it('a drain that runs alone fails with the read of its source', async () => {
  const { consumer } = world(() => ({ receive: () => Promise.reject(new Error('the broker is away')) }))
  await expect(consumer.drain()).rejects.toThrow('the broker is away')
})

it('a drain of a running consumer reads after it was asked', async () => {
  let answer: (() => void) | undefined
  const { broker, consumer, applied } = world((_, receive) => ({
    receive(params) {
      if (answer) return receive(params)
      // It has looked, and its answer is on the way.
      return new Promise((resolve) => (answer = () => resolve([])))
    },
  }))
  await consumer.start()
  await vi.waitFor(() => expect(answer).toBeDefined())
  broker.publish({ id: 'before' })
  const drain = consumer.drain()
  await pause(1)
  answer?.()
  expect(await drain).toBe(1)
  expect(applied).toEqual(['before'])
})

it('a drain that begins while another one ends handles what came before it', async () => {
  let isClosing = false
  const { broker, consumer, applied } = world((subscription) => {
    const close = subscription.close.bind(subscription)
    return {
      async close() {
        isClosing = true
        await pause(50)
        await close()
      },
    }
  })
  const first = consumer.drain()
  await vi.waitFor(() => expect(isClosing).toBe(true), { interval: 1 })
  broker.publish({ id: 'a' })
  expect(await consumer.drain()).toBe(1)
  expect(await first).toBe(0)
  expect(applied).toEqual(['a'])
})

it('a drain that waits for another one does not begin after a stop', async () => {
  let opened = 0
  const { broker, consumer, applied } = world((_, receive) => {
    opened++
    return { receive }
  })
  broker.publish({ id: 'a' })
  const drains = [consumer.drain(), consumer.drain()]
  await vi.waitFor(() => expect(opened).toBe(1), { interval: 1 })
  await consumer.stop()
  const counts = await Promise.all(drains)
  expect([opened, counts[1]]).toEqual([1, 0])
  expect(counts[0]).toBe(applied.length)
})

it('a consumer that is started while a drain begins runs on', async () => {
  const { broker, consumer, applied } = world()
  await Promise.all([consumer.start(), consumer.drain()])
  broker.publish({ id: 'a' })
  await vi.waitFor(() => expect(applied).toEqual(['a']), { timeout: 2_000 })
})

it('a drain waits while parts of its source change hands', async () => {
  let changesUntil = 0
  const { broker, consumer } = world((_, receive) => ({
    receive,
    get isChanging() {
      return Date.now() < changesUntil
    },
  }))
  for (const start of [false, true]) {
    if (start) await consumer.start()
    changesUntil = Date.now() + 400
    setTimeout(() => broker.publish({ id: `late ${start}` }), 200)
    expect(await consumer.drain()).toBe(1)
  }
})

/** Instances that share a store, each with a consumer of its outbox. */
function ofOutbox() {
  const store = memoryStore()
  return (leaseMs: number, change: (outbox: Outbox) => Outbox = (outbox) => outbox) => {
    const once = effectivelyOnce({ namespace: 'test', store, events, guard: 'off', sweep: false })
    closing.push(() => once.close())
    const surroundings = { clock: systemClock, observe: () => undefined, source: 'test', keptForMs: 60_000 }
    const wakes = { leaseMs, onPublished: () => () => undefined }
    const from = outboxSource<typeof events>({ ...surroundings, ...wakes, outbox: change(store.outbox) })
    const applied: number[] = []
    const consumer = once.consumer('reader', { from }, { made: async ({ data }) => void applied.push(data.n) })
    const make = (count: number): Promise<unknown> =>
      once.run({ scope: 's', key: 'k', input: null }, async ({ publish }) => {
        for (let n = 0; n < count; n++) await publish('made', { n })
      })
    return { once, consumer, applied, make }
  }
}

it.each([0, 1_500])('a drain takes the shards that another process released, after %i ms beside it', async (ms) => {
  const open = ofOutbox()
  // The second one has no heartbeat within this test.
  const [one, two] = [open(900), open(60_000)]
  await one.consumer.start()
  await two.consumer.start()
  // With a heartbeat of the first one, each has half of the shards. Before that, the second one has none.
  await pause(ms)
  await one.once.close()
  await two.make(64)
  expect(await two.consumer.drain()).toBe(64)
})

it('a drain waits for a heartbeat before it reads, if the last one is too old', async () => {
  let isAway = false
  const away = (): Promise<never> => Promise.reject(new Error('no heartbeat'))
  const open = ofOutbox()
  const { consumer, make } = open(600, (outbox) => ({
    ...outbox,
    beat: (params) => (isAway ? away() : outbox.beat(params)),
  }))
  await consumer.start()
  isAway = true
  await pause(400)
  setTimeout(() => (isAway = false), 1_500)
  await make(3)
  expect(await consumer.drain()).toBe(3)
})
