import { expect, it } from 'vitest'
import { EnvelopeDelivery } from './envelope.ts'
import { LogReading } from './log-reading.ts'
import type { LogDelivery } from './log-reading.ts'

const PREFETCH = 3
const LENGTH = 5

function deliveryAt(offset: number, redelivered: boolean): LogDelivery {
  const position = { partition: async () => 'p', offset: String(offset), next: String(offset + 1) }
  const envelope = { body: '{}', headers: {}, place: String(offset), source: 's' }
  return Object.assign(new EnvelopeDelivery(envelope, { redelivered }), { position })
}

it.each([undefined, '0'])(
  'whoever read before may have died of the first ones, also before any position was stored (%s)',
  async (stored) => {
    const signal = new AbortController().signal
    const reading = new LogReading({
      log: {
        read: async (from, { suspects }) =>
          Array.from({ length: LENGTH }, (_, i) => deliveryAt(Number(from) + i, i < suspects)),
        close: async () => {},
      },
      turn: { keptMs: 60_000, hold: async () => true, leave: async () => {} },
      partition: async () => 'p',
      prefetch: PREFETCH,
      positions: { read: async () => new Map(stored === undefined ? [] : [['p', stored]]) },
      signal,
    })
    const read = async (): Promise<boolean[]> =>
      (await reading.next({ max: LENGTH, waitMs: 1_000, signal })).map(({ redelivered }) => redelivered)
    expect(await read()).toEqual([true, true, true, false, false])
    expect(await read()).toEqual([false, false, false, false, false])
    await reading.close()
  },
)

it('who stands by waits as long as it was asked to', async () => {
  const signal = new AbortController().signal
  const reading = new LogReading({
    log: { read: async () => [], close: async () => {} },
    turn: { keptMs: 20, hold: async () => false, leave: async () => {} },
    partition: async () => 'p',
    prefetch: PREFETCH,
    positions: { read: async () => new Map() },
    signal,
  })
  const timer = setTimeout(() => void reading.close(), 1_000)
  const from = performance.now()
  expect(await reading.next({ max: 1, waitMs: 30, signal })).toEqual([])
  expect(performance.now() - from).toBeLessThan(900)
  clearTimeout(timer)
  await reading.close()
})

it('what was given back does not come when the log is read again from an earlier position', async () => {
  const signal = new AbortController().signal
  const stored = new Map([['p', '4']])
  const reading = new LogReading({
    log: {
      read: async (from, { max }) => (from < 5n ? [deliveryAt(Number(from), false)].slice(0, max) : []),
      close: async () => {},
    },
    turn: { keptMs: 60_000, hold: async () => true, leave: async () => {} },
    partition: async () => 'p',
    prefetch: PREFETCH,
    positions: { read: async () => stored },
    signal,
  })
  const read = (): Promise<readonly LogDelivery[]> => reading.next({ max: 1, waitMs: 1_000, signal })
  reading.giveBack(await read(), 20)
  stored.set('p', '0')
  reading.again(['p'])
  const offsets: string[] = []
  for (let i = 0; i < 3; i++) {
    offsets.push(...(await read()).map(({ position }) => position.offset))
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  await reading.close()
  expect(offsets).toEqual(['0', '1', '2'])
})
