import { afterEach, expect, it } from 'vitest'
import { onceError } from '../errors.ts'
import { effectivelyOnce, event } from '../index.ts'
import type { Signal } from '../observe/signal.ts'
import { systemClock } from '../platform/clock.ts'
import { outboxSource } from '../source/outbox.ts'
import type { MemoryTx } from '../store/memory/database/memory-tx.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import type { Inbox, Tries } from '../store/inbox.ts'
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

/** Consumes one event with this inbox, and returns the attempts of its handler and the letters. */
async function consumed(
  flaw: (inbox: Inbox<MemoryTx>) => Partial<Inbox<MemoryTx>>,
  run: () => Promise<void> = async () => {},
) {
  const store = memoryStore()
  const inbox = { value: Object.create(store.inbox, Object.getOwnPropertyDescriptors(flaw(store.inbox))) }
  const flawed = Object.create(store, { inbox }) as typeof store
  const once = effectivelyOnce({ namespace: 'flawed', store: flawed, events, sweep: false, guard: 'off' })
  ends.push(() => once.close())
  await once.run({ scope: 's', key: 'a', input: 1 }, ({ publish }) => publish('made', { id: 'a' }))
  const ran: number[] = []
  const handlers = {
    made: async (_event: unknown, { attempt }: { attempt: number }) => {
      ran.push(attempt)
      await run()
    },
  }
  const consumer = once.consumer('c', { from: once.outbox, delivery: 'at-most-once' }, handlers)
  await consumer.start()
  ends.push(() => consumer.stop())
  await pause(1_500)
  const letters = await once.deadLetters.list()
  return { ran, letters: letters.map(({ reason }) => reason) }
}

it('a message whose first attempt was counted, and the reply lost, is not taken for one that began', async () => {
  let lost = 0
  let left = (): Promise<readonly Tries[]> => Promise.resolve([])
  const { ran } = await consumed((inbox) => ({
    trying: async (params) => {
      left = () => inbox.tries(params)
      const tries = await inbox.trying(params)
      if (lost++ < 2) throw onceError('ONCE_STORE_UNAVAILABLE')
      return tries
    },
  }))
  expect([lost, ran]).toEqual([3, [1]])
  // The mark is gone with the commit. The count stays until the message can no longer come again.
  expect(await left()).toMatchObject([{ attempts: 3 }])
})

it('what another process counted meanwhile does not run', async () => {
  let lost = 0
  const { ran } = await consumed((inbox) => ({
    trying: async (params) => {
      if (lost++ > 0) return inbox.trying(params)
      await inbox.trying({ ...params, ids: params.ids.slice(0, 1) })
      throw onceError('ONCE_STORE_UNAVAILABLE')
    },
  }))
  expect([lost, ran]).toEqual([2, []])
})

it('what began does not run again, although its commit was refused', async () => {
  const { ran, letters } = await consumed((inbox) => ({
    async take(params) {
      const taken = await inbox.take(params)
      const complete = (): Promise<never> => Promise.reject(onceError('ONCE_STORE_UNAVAILABLE'))
      return { ...taken, session: Object.create(taken.session, { complete: { value: complete } }) }
    },
  }))
  expect([ran, letters]).toEqual([[1], ['failed']])
})

it('what failed has its letter, although the letter could not be written at first', async () => {
  let failures = 0
  const { ran, letters } = await consumed(
    (inbox) => ({
      park: async (params) => {
        if (failures++ < 2) throw onceError('ONCE_STORE_UNAVAILABLE')
        return inbox.park(params)
      },
    }),
    () => Promise.reject(new Error('no')),
  )
  expect([failures, ran, letters]).toEqual([3, [1], ['failed']])
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
