import { expect, it, vi } from 'vitest'
import { onceError } from '../errors.ts'
import { systemParts } from '../operation/parts.ts'
import { systemClock, type Clock } from '../platform/clock.ts'
import { messageIdentity } from './inbox/identity.ts'
import type { Signal } from '../observe/signal.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import { memoryBroker, type MemoryBroker } from '../testing/source-contract/memory-broker.ts'
import { createOnce, effectivelyOnce } from '../once/once.ts'

const NAME = 'reader'

/** Delivered once, to somebody who is gone: the next delivery is a redelivery. */
async function deliveredBefore({ source }: MemoryBroker, signal: AbortSignal): Promise<void> {
  const subscription = await source.open({ consumer: NAME, signal } as never)
  await subscription.receive({ max: 10, waitMs: 20, signal })
  await subscription.close()
}

it('runs every message that may have ended a process, also after another one of them has failed', async () => {
  const store = memoryStore()
  const broker = memoryBroker()
  const ids = ['a', 'b', 'c']
  broker.publish(...ids.map((id) => ({ id, aggregate: id })))
  await deliveredBefore(broker, new AbortController().signal)
  await store.inbox.open({ consumer: NAME, inboxForMs: 1e9, rememberForMs: 1e9, lettersForMs: 1e9 })
  // A process ended while it was at all of them.
  const items = ids.map((message) => messageIdentity({ consumer: NAME, source: 'memory', message }).id)
  await store.inbox.trying({ consumer: NAME, ids: items })
  const once = effectivelyOnce({ namespace: 'test', store, guard: 'off', sweep: false, observe: () => {} })
  const runs: string[] = []
  let running = 0
  let together = 0
  const consumer = once.consumer(
    NAME,
    { from: broker.source, concurrency: 3 },
    {
      'step.made': async ({ id }) => {
        runs.push(id)
        together = Math.max(together, ++running)
        await new Promise((resolve) => setTimeout(resolve, 5))
        running--
        if (runs.filter((run) => run === id).length === 1) throw new Error('it fails once')
      },
    },
  )
  await consumer.start()
  await vi.waitFor(() => expect(broker.left).toBe(0), { timeout: 5_000 })
  await consumer.stop()
  expect(runs.toSorted()).toEqual(['a', 'a', 'b', 'b', 'c', 'c'])
  expect(together).toBe(1)
})

it('holds nothing against a message whose batch was run again because of another one', async () => {
  const store = memoryStore()
  const broker = memoryBroker()
  broker.publish({ id: 'innocent', aggregate: 'i' }, { id: 'guilty', aggregate: 'g' })
  await deliveredBefore(broker, new AbortController().signal)
  const once = effectivelyOnce({ namespace: 'test', store, guard: 'off', sweep: false, observe: () => {} })
  const attempts: number[] = []
  let failures = 0
  const consumer = once.consumer(
    NAME,
    { from: broker.source, attempts: 1 },
    {
      'step.made': async ({ id }, { attempt }) => {
        if (id === 'innocent') attempts.push(attempt)
        else if (++failures > 0) throw new Error('it always fails')
      },
    },
  )
  await consumer.start()
  await vi.waitFor(() => expect(broker.left).toBe(0), { timeout: 5_000 })
  await consumer.stop()
  const letters = await once.deadLetters.list({ consumer: NAME })
  expect(letters.map(({ message, reason }) => [message, reason])).toEqual([['guilty', 'failed']])
  // In a batch, and alone: that one was its own.
  expect(failures).toBe(2)
  expect(attempts).toEqual([1, 1])
})

it('counts no attempt of a message that runs elsewhere', { timeout: 30_000 }, async () => {
  const store = memoryStore()
  const [held, bouncing] = [memoryBroker(), memoryBroker()]
  for (const broker of [held, bouncing]) broker.publish({ id: 'slow', aggregate: 's' })
  await deliveredBefore(bouncing, new AbortController().signal)
  let fail: (error: Error) => void = () => {}
  const running = new Promise<void>((_, reject) => (fail = reject))
  running.catch(() => {})
  let runs = 0
  let bounces = 0
  const observe = ({ kind }: Signal): void => void (kind === 'returned' && bounces++)
  const once = effectivelyOnce({ namespace: 'test', store, guard: 'off', sweep: false, observe })
  const other = effectivelyOnce({ namespace: 'test', store, guard: 'off', sweep: false, observe })
  const options = { attempts: 2 }
  const handlers = { 'step.made': async () => (runs++ === 0 ? running : undefined) }
  const first = await once.consumer(NAME, { from: held.source, ...options }, handlers).start()
  await vi.waitFor(() => expect(runs).toBe(1), { timeout: 5_000 })
  const second = await other.consumer(NAME, { from: bouncing.source, ...options }, handlers).start()
  await vi.waitFor(() => expect(bounces).toBeGreaterThan(3), { timeout: 10_000 })
  fail(new Error('its first failure'))
  await vi.waitFor(() => expect([held.left, bouncing.left]).toEqual([0, 0]), { timeout: 10_000 })
  await Promise.all([first.stop(), second.stop()])
  expect(await once.deadLetters.list({ consumer: NAME })).toEqual([])
  expect(runs).toBe(2)
})

it('stops although its broker answers nothing any more', async () => {
  const broker = memoryBroker()
  broker.publish({ id: 'a', aggregate: 'a' }, { id: 'b', aggregate: 'a' })
  const never = (): Promise<never> => new Promise(() => {})
  const source = {
    ...broker.source,
    open: async (params: never) => {
      const inner = await broker.source.open(params)
      return { receive: inner.receive.bind(inner), ack: never, giveBack: never, close: never }
    },
  }
  const once = effectivelyOnce({ namespace: 'test', store: memoryStore(), guard: 'off', sweep: false })
  let ran = 0
  const options = { from: source as typeof broker.source, deadline: '300ms' } as const
  const consumer = once.consumer(NAME, options, {
    'step.made': async () => {
      ran++
      throw new Error('not yet')
    },
  })
  await consumer.start()
  await vi.waitFor(() => expect(ran).toBeGreaterThan(0), { timeout: 5_000 })
  const hangs = new Promise((resolve) => setTimeout(() => resolve('hangs'), 4_000))
  expect(await Promise.race([consumer.stop(), hangs])).toBeUndefined()
})

it('has no more in hand than it has memory for', { timeout: 30_000 }, async () => {
  const broker = memoryBroker()
  const large = 'x'.repeat(1024 * 1024)
  const ids = Array.from({ length: 200 }, (_, i) => `m${i}`)
  broker.publish(...ids.map((id) => ({ id, aggregate: id, data: large })))
  const once = effectivelyOnce({ namespace: 'test', store: memoryStore(), guard: 'off', sweep: false })
  const asked: number[] = []
  let inHand = 0
  let most = 0
  const { source } = broker
  const counted: typeof source = {
    ...source,
    async open(params) {
      const subscription = await source.open(params)
      const less = (deliveries: readonly unknown[]): number => (inHand -= deliveries.length)
      return {
        ...subscription,
        async receive(wanted) {
          asked.push(wanted.max)
          const came = await subscription.receive(wanted)
          most = Math.max(most, (inHand += came.length))
          return came
        },
        ack: (deliveries) => (less(deliveries), subscription.ack(deliveries)),
        giveBack: (deliveries, how) => (less(deliveries), subscription.giveBack(deliveries, how)),
      }
    },
  }
  const seen = new Set<string>()
  const consumer = once.consumer(NAME, { from: counted }, { 'step.made': async ({ id }) => void seen.add(id) })
  await consumer.start()
  await vi.waitFor(() => expect(broker.left).toBe(0), { timeout: 20_000 })
  await consumer.stop()
  expect(seen.size).toBe(ids.length)
  // 32 MiB of them.
  expect(most).toBeLessThanOrEqual(32)
  expect(Math.max(...asked)).toBeGreaterThan(16)
})

it('tells of a message that was late among others, though it is in time when it runs alone', async () => {
  const broker = memoryBroker()
  broker.publish({ id: 'first', aggregate: 'f' }, { id: 'late', aggregate: 'l' })
  const troubles: unknown[] = []
  const observe = (signal: Signal): void => {
    if (signal.kind === 'troubled') troubles.push(signal.error)
  }
  const once = effectivelyOnce({ namespace: 'test', store: memoryStore(), guard: 'off', sweep: false, observe })
  let runs = 0
  const consumer = once.consumer(
    NAME,
    { from: broker.source, concurrency: 1, batch: 2, deadline: '200ms' },
    {
      'step.made': async ({ id }) => {
        if (id === 'late' && ++runs === 1) await new Promise(() => {})
      },
    },
  )
  await consumer.start()
  await vi.waitFor(() => expect(broker.left).toBe(0), { timeout: 5_000 })
  await consumer.stop()
  expect([runs, troubles]).toEqual([2, [expect.objectContaining({ code: 'ONCE_DEADLINE' })]])
})

it('asks again for a delivery that came while its message was under way: that commit may be lost', async () => {
  const broker = memoryBroker()
  broker.publish({ id: 'a', aggregate: 'a' })
  const store = memoryStore()
  const inbox = store.inbox
  let lost = 0
  const forgetful: typeof inbox = {
    ...inbox,
    take: async (params) => {
      const taken = await inbox.take(params)
      const { session } = taken
      return {
        ...taken,
        session: {
          session: session.session,
          rollback: () => session.rollback(),
          // The server that committed is gone, and the one after it knows nothing of this.
          async complete(of) {
            if (lost > 0) return session.complete(of)
            lost++
            await session.rollback()
            return 'committed'
          },
        },
      }
    },
  }
  const once = effectivelyOnce({ namespace: 'test', store: { ...store, inbox: forgetful }, guard: 'off', sweep: false })
  let runs = 0
  let goOn = (): void => {}
  const gate = new Promise<void>((resolve) => (goOn = resolve))
  const consumer = once.consumer(
    NAME,
    { from: broker.source },
    {
      'step.made': async () => {
        runs++
        await gate
      },
    },
  )
  await consumer.start()
  await vi.waitFor(() => expect(runs).toBe(1), { timeout: 5_000 })
  broker.publish({ id: 'a', aggregate: 'a' })
  await new Promise((resolve) => setTimeout(resolve, 200))
  goOn()
  await vi.waitFor(() => expect(broker.left).toBe(0), { timeout: 5_000 })
  await consumer.stop()
  const { id } = messageIdentity({ consumer: NAME, source: 'memory', message: 'a' })
  const item = { id, lock: '1', source: 'memory', message: 'a', aggregate: 'a', previous: null }
  expect([runs, await inbox.look({ consumer: NAME, items: [item] })]).toEqual([2, ['duplicate']])
})

/** Every look at it takes a moment, and its timers fire so many looks too early. */
function clockThatGoesOn(looksTooEarly: number): Clock {
  const lookMs = 0.5
  let time = 0
  return {
    ...systemClock,
    now: () => (time += lookMs),
    after(ms, callback, held) {
      const at = time + ms
      return systemClock.after(
        ms,
        () => {
          time = Math.max(time, at - lookMs * (looksTooEarly + 0.5))
          callback()
        },
        held,
      )
    },
  }
}

it.each([0, 1, 2, 3])(
  'begins again after a rest that ends while it looks at the clock, after %i looks',
  async (looks) => {
    const store = memoryStore()
    let troubles = 2
    const inbox: typeof store.inbox = {
      ...store.inbox,
      async take(params) {
        if (troubles-- > 0) throw onceError('ONCE_STORE_UNAVAILABLE')
        return store.inbox.take(params)
      },
    }
    const once = createOnce(
      {
        namespace: 'test',
        store: Object.create(store, { inbox: { value: inbox } }) as typeof store,
        guard: 'off',
        sweep: false,
        observe: () => {},
      },
      { ...systemParts, clock: clockThatGoesOn(looks) },
    )
    const broker = memoryBroker()
    const consumer = once.consumer(NAME, { from: broker.source, concurrency: 2 }, { 'step.made': async () => {} })
    broker.publish({ id: 'a' })
    await consumer.start()
    // Sooner than the broker's next answer, which never comes to one that has as much in hand as it may.
    await vi.waitFor(() => expect(broker.left).toBe(0), { timeout: 1_500 })
    await consumer.stop()
  },
)

it('looks again soon after a broker that was away for long, and says what is wrong until then', async () => {
  const broker = memoryBroker()
  broker.publish({ id: 'a', aggregate: 'a' })
  let isAway = true
  let failures = 0
  const source = {
    ...broker.source,
    async open(reader: never) {
      const subscription = await broker.source.open(reader)
      const receiving = subscription.receive.bind(subscription)
      const receive: typeof receiving = async (params) => {
        if (!isAway) return receiving(params)
        isAway = ++failures < 40
        throw new Error('the broker is away')
      }
      return Object.assign(subscription, { receive })
    },
  } as typeof broker.source
  const waits: number[] = []
  const signals: Signal[] = []
  // Time that passes faster than it is counted.
  const after: Clock['after'] = (ms, callback, held) => {
    waits.push(ms)
    return systemClock.after(Math.min(ms, 1), callback, held)
  }
  const random = { ...systemParts.random, next: () => 1 }
  const observe = (signal: Signal): void => void signals.push(signal)
  const settings = { namespace: 'test', store: memoryStore(), guard: 'off', sweep: false, observe } as const
  const once = createOnce(settings, { ...systemParts, clock: { ...systemClock, after }, random })
  const consumer = once.consumer(NAME, { from: source }, { 'step.made': async () => {} })
  await consumer.start()
  await vi.waitFor(() => expect(broker.left).toBe(0), { timeout: 5_000 })
  const isAbout = (signal: Signal): boolean => signal.kind === 'troubled' && /is away/.test(String(signal.error))
  expect(signals.filter(isAbout)).toHaveLength(40)
  expect(waits.filter((ms) => ms === 5_000).length).toBeGreaterThan(30)
  expect(waits).not.toContain(60_000)
  await consumer.stop()
  await once.close()
})
