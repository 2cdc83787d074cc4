import { expect, it } from 'vitest'
import { effectivelyOnce, event, type Signal } from '../index.ts'
import { inProcessSink } from '../sink/in-process.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import type { Outbox } from '../store/outbox.ts'

const events = { made: event<{ n: number }>(({ n }) => `a${n}`) }
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

it('calls that end do not shorten the pauses while the database is away', async () => {
  const memory = memoryStore()
  let away = false
  const outbox: Outbox = {
    ...memory.outbox,
    ack: (params) => (away ? Promise.reject(new Error('the database is away')) : memory.outbox.ack(params)),
  }
  const troubled: Signal[] = []
  const observe = (signal: Signal): void => void (signal.kind === 'troubled' && troubled.push(signal))
  const store = { ...memory, outbox }
  const once = effectivelyOnce({ namespace: 'away', store, events, sweep: false, guard: 'off', observe })
  await once.run({ scope: 's', key: 'k', input: null }, async ({ publish }) => {
    for (let n = 0; n < 900; n++) await publish('made', { n })
  })
  const sent: unknown[] = []
  const to = { ...inProcessSink(() => {}), batch: 1, concurrency: 4 }
  const relay = await once
    .relay({
      to: {
        ...to,
        async send(of) {
          await pause(5)
          if (sent.length === 20) away = true
          sent.push(...of.map(({ id }) => id))
          return of.map(() => ({ kind: 'sent' as const }))
        },
      },
    })
    .start()
  await expect.poll(() => away, { interval: 5 }).toBe(true)
  await pause(1_000)
  expect(sent.length).toBeGreaterThan(60)
  // The pauses are random, up to 100 ms, 200 ms, 400 ms, 800 ms and so on.
  expect(troubled.length).toBeLessThan(14)
  away = false
  await relay.drain()
  await once.close()
  expect(new Set(sent).size).toBe(900)
  expect(sent.length).toBe(900)
})

it.each(['ack', 'read'] as const)(
  'commits do not shorten the pauses while the database refuses each %s',
  async (what) => {
    const memory = memoryStore()
    let away = false
    let asked = 0
    const refuse = async (): Promise<never> => {
      asked++
      throw new Error('too many connections')
    }
    const outbox: Outbox = {
      ...memory.outbox,
      ack: (params) => (away && what === 'ack' ? refuse() : memory.outbox.ack(params)),
      read: (params) => (away && what === 'read' ? refuse() : memory.outbox.read(params)),
    }
    const once = effectivelyOnce({
      namespace: 'away',
      store: { ...memory, outbox },
      events,
      sweep: false,
      guard: 'off',
    })
    const sent = new Set<unknown>()
    const relay = await once
      .relay({ to: inProcessSink(({ data }) => void sent.add((data as { n: number }).n)) })
      .start()
    let made = 0
    const make = (): Promise<unknown> =>
      once.run({ scope: 's', key: `k${made}`, input: null }, ({ publish }) => publish('made', { n: made++ }))
    const commitFor = async (ms: number): Promise<void> => {
      for (const end = performance.now() + ms; performance.now() < end; await pause(5)) await make()
    }
    await commitFor(100)
    away = true
    await commitFor(1_500)
    expect(made).toBeGreaterThan(100)
    expect(asked).toBeGreaterThan(0)
    expect(asked).toBeLessThan(20)
    away = false
    await expect.poll(() => sent.size, { timeout: 5_000, interval: 20 }).toBe(made)
    away = true
    await commitFor(500)
    const begun = performance.now()
    await relay.stop({ within: '1s' })
    expect(performance.now() - begun).toBeLessThan(1_200)
    await once.close()
  },
)
