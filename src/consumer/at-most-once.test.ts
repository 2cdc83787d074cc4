import { afterEach, expect, it } from 'vitest'
import { effectivelyOnce, event } from '../index.ts'
import type { Signal } from '../observe/signal.ts'
import { systemClock } from '../platform/clock.ts'
import { outboxSource } from '../source/outbox.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import type { Outbox } from '../store/outbox.ts'
import { memoryBroker } from '../testing/source-contract/memory-broker.ts'

const NAME = 'reader'
const LEASE_MS = 500
const events = { made: event<{ id: string }>(({ id }) => id) }
const ends: (() => unknown)[] = []
const pause = (ms: number): Promise<unknown> => new Promise((resolve) => setTimeout(resolve, ms))

afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end()
})

/** Consumers of one outbox, as of processes that may end without a word. */
function world() {
  const store = memoryStore()
  const signals: Signal[] = []
  const observe = (signal: Signal): void => void signals.push(signal)
  const once = effectivelyOnce({ namespace: 'first', store, events, sweep: false, guard: 'off', observe })
  ends.push(() => once.close())
  const make = (id: string): Promise<unknown> =>
    once.run({ scope: 's', key: id, input: id }, ({ publish }) => publish('made', { id }))
  const consume = async (isDead: () => boolean, run: (id: string) => Promise<unknown>): Promise<void> => {
    const inner = store.outbox
    const alive = Object.fromEntries(
      (['ack', 'beat', 'release'] as const).map((name) => {
        const call = inner[name] as (params: never) => Promise<unknown>
        return [name, (params: never) => (isDead() ? new Promise(() => {}) : call(params))]
      }),
    )
    const parts = { clock: systemClock, observe, source: 'test', keptForMs: 60_000, leaseMs: LEASE_MS }
    const outbox = { ...inner, ...alive } as Outbox
    const from = outboxSource<typeof events>({ ...parts, outbox, onPublished: () => () => undefined })
    const on = { made: async ({ data }: { data: { id: string } }) => void (await run(data.id)) }
    const consumer = await once.consumer('c', { from, delivery: 'at-most-once', deadline: '500ms' }, on).start()
    ends.push(() => consumer.stop())
  }
  return { make, consume, signals }
}

it('what ended its process does not run again from the outbox', async () => {
  const { make, consume } = world()
  const runs: string[] = []
  let dead = false
  await make('a')
  await consume(
    () => dead,
    async (id) => {
      runs.push(id)
      dead = true
      await new Promise(() => {})
    },
  )
  await pause(100)
  expect(runs).toEqual(['a'])
  await pause(LEASE_MS * 2)
  await consume(
    () => false,
    async (id) => runs.push(id),
  )
  await make('b')
  await pause(LEASE_MS * 3)
  expect(runs).toEqual(['a', 'b'])
})

it('waits longer each time while nothing can be acknowledged', async () => {
  const broker = memoryBroker()
  broker.publish({ id: 'a', aggregate: 'a' })
  const source = {
    ...broker.source,
    open: async (params: never) => {
      const inner = await broker.source.open(params)
      return Object.assign(Object.create(inner) as typeof inner, { ack: () => Promise.reject(new Error('away')) })
    },
  }
  const signals: Signal[] = []
  const observe = (signal: Signal): void => void signals.push(signal)
  const once = effectivelyOnce({ namespace: 'away', store: memoryStore(), guard: 'off', sweep: false, observe })
  ends.push(() => once.close())
  let ran = 0
  const options = { from: source as typeof broker.source, delivery: 'at-most-once' } as const
  const consumer = once.consumer(NAME, options, { 'step.made': async () => void ran++ })
  await consumer.start()
  await pause(500)
  await consumer.stop()
  expect(ran).toBe(0)
  expect(signals.filter(({ kind }) => kind === 'troubled').length).toBeLessThan(30)
})
