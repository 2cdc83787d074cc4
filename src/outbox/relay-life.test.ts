import { afterEach, expect, it } from 'vitest'
import { effectivelyOnce, event } from '../index.ts'
import { inProcessSink } from '../sink/in-process.ts'
import type { Sink } from '../sink/sink.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import type { Outbox } from '../store/outbox.ts'

const events = { made: event<{ id: string }>(({ id }) => id) }
const ends: (() => unknown)[] = []
let worlds = 0

afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end()
})

function world(change: (outbox: Outbox) => Outbox = (outbox) => outbox) {
  const inner = memoryStore()
  const store = Object.create(inner, { outbox: { value: change(inner.outbox) } }) as typeof inner
  const once = effectivelyOnce({ namespace: `life-${++worlds}`, store, events, sweep: false, guard: 'off' })
  ends.push(() => once.close())
  let keys = 0
  const make = (...ids: string[]): Promise<unknown> =>
    once.run({ scope: 's', key: `k${++keys}`, input: keys }, async ({ publish }) => {
      for (const id of ids) await publish('made', { id })
    })
  return { once, make }
}

async function within(ms: number, done: () => boolean): Promise<void> {
  for (const until = performance.now() + ms; !done() && performance.now() < until;) await pause(10)
}

const pause = (ms: number): Promise<unknown> => new Promise((resolve) => setTimeout(resolve, ms))

it('what failed while it was paused is tried again when it goes on', async () => {
  const { once, make } = world()
  const tries: string[] = []
  const sink = inProcessSink(({ subject }) => {
    tries.push(subject)
    if (tries.length > 1) return
    relay.pause()
    throw new Error('not yet')
  })
  const relay = once.relay({ to: sink, lease: '10m' })
  await relay.start()
  await make('a')
  await within(1_000, () => tries.length === 1)
  await pause(1_500)
  relay.resume()
  await within(2_000, () => tries.length === 2)
  expect(tries).toEqual(['a', 'a'])
})

it('a relay that is started while it stops runs again', async () => {
  const { once, make } = world()
  const sent: string[] = []
  let slow = 0
  const sink = inProcessSink(async ({ subject }) => {
    if (slow++ === 0) await pause(300)
    sent.push(subject)
  })
  const relay = await once.relay({ to: sink }).start()
  await make('a')
  await within(1_000, () => slow === 1)
  const stopped = relay.stop()
  await relay.start()
  await stopped
  await make('b')
  await within(2_000, () => sent.includes('b'))
  expect(sent).toContain('b')
})

it('a relay that is started while it drains goes on afterwards', async () => {
  const { once, make } = world()
  const sent: string[] = []
  const sink = inProcessSink(async ({ subject }) => {
    await pause(50)
    sent.push(subject)
  })
  const relay = once.relay({ to: sink })
  await make('a')
  const drained = relay.drain()
  await relay.start()
  expect(await drained).toBe(1)
  await make('b')
  await within(2_000, () => sent.includes('b'))
  expect(sent).toEqual(['a', 'b'])
})

it('a consumer that is started while it stops or drains runs again', async () => {
  const { once, make } = world()
  const applied: string[] = []
  const consumer = once.consumer(
    'c',
    { from: once.outbox },
    {
      made: async ({ data }: { data: { id: string } }) => {
        await pause(50)
        applied.push(data.id)
      },
    },
  )
  await make('a')
  const drained = consumer.drain()
  await consumer.start()
  await drained
  await make('b')
  await within(2_000, () => applied.includes('b'))
  expect(applied).toEqual(['a', 'b'])
  const stopped = consumer.stop()
  await consumer.start()
  await stopped
  await make('c')
  await within(2_000, () => applied.includes('c'))
  expect(applied).toEqual(['a', 'b', 'c'])
})

it('nothing is there to do for a paused relay', async () => {
  const { once, make } = world()
  const relay = once.relay({ to: inProcessSink(() => undefined) })
  relay.pause()
  await make('a')
  const hangs = pause(2_500).then(() => 'hangs')
  expect(await Promise.race([relay.drain(), hangs])).toBe(0)
  await relay.start()
  expect(await Promise.race([relay.drain(), hangs])).toBe(0)
  relay.resume()
  expect(await relay.drain()).toBe(1)
})

it('a stop writes what was sent, although the database was away for a moment', async () => {
  let away = false
  const { once, make } = world((outbox) => ({
    ...outbox,
    ack: (params) => (away ? Promise.reject(new Error('the database is away')) : outbox.ack(params)),
  }))
  const sent: string[] = []
  const sink = (): Sink =>
    inProcessSink(
      async ({ subject }) => {
        away = sent.push(subject) === 1
        await pause(100)
      },
      { name: 's' },
    )
  const relay = await once.relay({ to: sink() }).start()
  await make('a')
  await within(1_000, () => sent.length === 1)
  const stopped = relay.stop()
  setTimeout(() => (away = false), 600)
  await stopped
  await once.relay({ to: sink() }).drain()
  expect(sent).toEqual(['a'])
})
