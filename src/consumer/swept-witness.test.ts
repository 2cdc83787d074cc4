import { afterEach, expect, test } from 'vitest'
import { effectivelyOnce, event, type Signal } from '../index.ts'
import { LOG_FEATURES, LogReading, logSubscription, type LogDelivery } from '../source/log-reading.ts'
import type { EventsOf, PulledSource } from '../source/source.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import type { Inbox } from '../store/inbox.ts'

const events = { made: event<{ n: number }>(({ n }) => `a${n}`) }
const pause = (ms: number): Promise<unknown> => new Promise((resolve) => setTimeout(resolve, ms))

const ends: (() => unknown)[] = []
afterEach(async () => {
  for (const end of ends.splice(0)) await end()
})

function logOf(length: number): PulledSource<EventsOf<typeof events>> {
  const deliveryOf = (n: number): LogDelivery => {
    const what = { id: `e${n}`, source: 'log', type: 'made', aggregate: `a${n}`, previous: null, headers: {} }
    const position = { partition: 'p', offset: String(n), next: String(n + 1) }
    const data = { n }
    return { ...what, at: new Date(0), event: { ...what, data }, body: '{}', position } as unknown as LogDelivery
  }
  const log = {
    async read(from: bigint): Promise<readonly LogDelivery[]> {
      const found = Array.from({ length }, (_, n) => deliveryOf(n)).slice(Number(from))
      if (found.length === 0) await pause(20)
      return found
    },
    close: async (): Promise<void> => {},
  }
  const turn = { keptMs: 60_000, hold: async (): Promise<boolean> => true, leave: async (): Promise<void> => {} }
  return {
    kind: 'pulled',
    name: 'log',
    types: ['made'],
    redeliversFor: '1s',
    holdsFor: 'connection',
    features: LOG_FEATURES,
    open: async (params) => logSubscription(new LogReading({ ...params, log, turn, partition: async () => 'p' })),
  }
}

test('what was forgotten because it is old is passed: the database has not gone back', async () => {
  const store = memoryStore()
  const signals: Signal[] = []
  const observe = (signal: Signal): void => void signals.push(signal)
  const once = effectivelyOnce({ namespace: 'swept', store, events, guard: 'off', sweep: false, observe })
  ends.push(() => once.close())
  let open = (): void => {}
  const gate = new Promise<void>((resolve) => (open = resolve))
  const ran: number[] = []
  const consumer = once.consumer(
    'c',
    { from: logOf(4), batch: 1, attempts: 1, inboxFor: '1s', rememberFor: '1s', horizon: 'warn' },
    {
      made: async ({ data }) => {
        ran.push(data.n)
        if (data.n === 0) await gate
      },
    },
  )
  await consumer.start()
  ends.unshift(() => consumer.stop())
  await pause(1_500)
  await (store.inbox as Inbox<unknown>).sweep({ limit: 100 })
  open()
  await pause(3_000)
  expect(ran.toSorted((a, b) => a - b)).toEqual([0, 1, 2, 3])
  expect(signals.filter((of) => of.kind === 'troubled' && String(of.error).includes('gone back'))).toEqual([])
}, 20_000)
