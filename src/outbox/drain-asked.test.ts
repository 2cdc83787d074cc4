import { expect, it } from 'vitest'
import { effectivelyOnce, event } from '../index.ts'
import { inProcessSink } from '../sink/in-process.ts'
import type { Sink } from '../sink/sink.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import type { Outbox } from '../store/outbox.ts'

const events = { made: event<{ n: number }>(() => 'one') }
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

function world(change: (outbox: Outbox) => Outbox = (outbox) => outbox) {
  const memory = memoryStore()
  const store = { ...memory, outbox: change(memory.outbox) }
  const once = effectivelyOnce({ namespace: 'asked', store, events, sweep: false, guard: 'off' })
  const make = (n: number): Promise<unknown> =>
    once.run({ scope: 's', key: `k${n}`, input: n }, ({ publish }) => publish('made', { n }))
  return { once, make }
}

it('a drain of a running relay sends what was committed before it', async () => {
  const { once, make } = world()
  let sent = 0
  const relay = await once.relay({ to: inProcessSink(() => void sent++) }).start()
  const missed: number[] = []
  for (let n = 1; n <= 50; n++) {
    await make(n)
    await relay.drain()
    if (sent < n) missed.push(n)
  }
  await once.close()
  expect(missed).toEqual([])
})

it('a drain that begins while another one ends sends what was committed before it', async () => {
  const { once, make } = world()
  let sent = 0
  let closing = false
  const to: Sink = {
    ...inProcessSink(() => void sent++),
    async close() {
      closing = true
      await pause(50)
    },
  }
  const relay = once.relay({ to })
  const first = relay.drain()
  await expect.poll(() => closing, { interval: 1 }).toBe(true)
  await make(1)
  expect(await relay.drain()).toBe(1)
  expect(await first).toBe(0)
  expect(sent).toBe(1)
})

it('a drain that waits for another one does not begin after a stop', async () => {
  const { once, make } = world()
  let sent = 0
  const to = inProcessSink(async () => {
    sent++
    await pause(50)
  })
  const relay = once.relay({ to })
  await make(1)
  await make(2)
  const drains = [relay.drain(), relay.drain()]
  await expect.poll(() => sent, { interval: 1 }).toBe(1)
  await relay.stop()
  expect((await Promise.all(drains)).reduce((sum, count) => sum + count)).toBe(sent)
  await make(3)
  await pause(100)
  expect(sent).toBeLessThan(3)
})

it('what an operator releases while the relay looks is sent at once', async () => {
  let looking: (() => void) | undefined
  const { once, make } = world((outbox) => ({
    ...outbox,
    async due(params) {
      const due = await outbox.due(params)
      const begun = looking
      looking = undefined
      begun?.()
      if (begun) await pause(100)
      return due
    },
  }))
  const sent: number[] = []
  let isBad = true
  const to = inProcessSink(({ data }) => {
    if (isBad) throw new Error('not yet')
    sent.push((data as { n: number }).n)
  })
  const relay = await once.relay({ to, attempts: 1 }).start()
  await make(1)
  for (let tries = 0; tries < 100 && (await once.parked.list({ destination: 'in-process' })).length === 0; tries++)
    await pause(10)
  isBad = false
  await pause(50)
  const looks = new Promise<void>((resolve) => (looking = resolve))
  // Any wake of this kind makes the relay look.
  await once.parked.release({ destination: 'in-process', why: 'none of this name', aggregate: 'other' })
  void relay.drain()
  await looks
  await once.parked.release({ destination: 'in-process', why: 'it is well again' })
  for (const end = performance.now() + 2_000; sent.length === 0 && performance.now() < end;) await pause(10)
  await once.close()
  expect(sent).toEqual([1])
})
