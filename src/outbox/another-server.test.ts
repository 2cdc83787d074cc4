import { expect, test } from 'vitest'
import { effectivelyOnce, event } from '../index.ts'
import { inProcessSink } from '../sink/in-process.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import type { Outbox } from '../store/outbox.ts'

const events = { made: event<{ n: number }>(() => 'one') }

/**
 * An outbox that is promoted: the server that answers from then on has forgotten the cursors, and gives numbers before
 * them again. Whoever reads on from an old cursor misses the first event that is made there.
 */
function promotable(inner: Outbox) {
  const knowing = new Set<string>()
  let server = 'first'
  const isMissed = (payload: string | null): boolean => payload?.includes('"n":1') === true
  const outbox: Outbox = {
    ...inner,
    async lease(params) {
      knowing.add(params.destination)
      return inner.lease(params)
    },
    async read(params) {
      const read = await inner.read(params)
      const isRight = knowing.has(params.destination)
      const seen = isRight ? read.events : read.events.filter(({ payload }) => !isMissed(payload))
      return { ...read, events: seen, server: params.server === server ? null : server }
    },
    async beat(params) {
      const beat = await inner.beat(params)
      return knowing.has(params.destination) ? beat : { ...beat, ours: [] }
    },
  }
  const promote = (): void => {
    knowing.clear()
    server = 'second'
  }
  return { outbox, promote }
}

test('what another server tells is not sent or applied before it was asked what it knows', async () => {
  const memory = memoryStore()
  const { outbox, promote } = promotable(memory.outbox)
  const once = effectivelyOnce({ namespace: 'p', store: { ...memory, outbox }, events, sweep: false })
  const make = (numbers: readonly number[]): Promise<unknown> =>
    once.run({ scope: 's', key: numbers.join(), input: null }, async ({ publish }) => {
      for (const n of numbers) await publish('made', { n })
    })
  const sent: number[] = []
  const applied: number[] = []
  const to = inProcessSink(({ data }) => void sent.push((data as { n: number }).n), { name: 'sink' })
  const relay = await once.relay({ to, lease: '60s' }).start()
  const on = { made: async ({ data }: { data: { n: number } }) => void applied.push(data.n) }
  const consumer = await once.consumer('c', { from: once.outbox }, on).start()
  await make([0])
  await expect.poll(() => [sent, applied], { timeout: 5_000 }).toEqual([[0], [0]])
  promote()
  await make([1, 2])
  await expect.poll(() => [sent, applied].every((seen) => seen.includes(2)), { timeout: 5_000 }).toBe(true)
  expect([sent, applied].map((seen) => [...new Set(seen)])).toEqual([
    [0, 1, 2],
    [0, 1, 2],
  ])
  await Promise.all([relay.stop(), consumer.stop()])
})
