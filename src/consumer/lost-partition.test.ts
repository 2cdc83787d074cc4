import { afterEach, expect, test, vi } from 'vitest'
import { effectivelyOnce } from '../index.ts'
import { events, logOf } from '../../test/support/memory-log.ts'
import { memoryStore } from '../store/memory/memory-store.ts'

const ends: (() => unknown)[] = []
afterEach(async () => {
  for (const end of ends.splice(0)) await end()
})

test('a delivery that came twice does not pass what was lost with its partition', async () => {
  const once = effectivelyOnce({ namespace: 'lost', store: memoryStore(), events, guard: 'off', sweep: false })
  ends.push(() => once.close())
  let open = (): void => {}
  const gate = new Promise<void>((resolve) => (open = resolve))
  let isOurs = true
  const reads: bigint[] = []
  const turn = { keptMs: 60, hold: async () => isOurs, leave: async () => {} }
  const ran: number[] = []
  const entries = [0, 1]
  const consumer = once.consumer(
    'c',
    { from: logOf(entries, reads, turn), batch: 1, concurrency: 1, horizon: 'warn' },
    {
      'step.made': async ({ data }) => {
        ran.push(data.n)
        if (data.n === 0) await gate
      },
    },
  )
  await consumer.start()
  ends.unshift(() => consumer.stop())
  await vi.waitFor(() => expect([ran, reads.at(-1)]).toEqual([[0], 2n]))
  // The first one again, while it is under way.
  entries.push(0)
  await vi.waitFor(() => expect(reads.at(-1)).toBe(3n))
  expect(ran).toEqual([0])
  isOurs = false
  await new Promise((resolve) => setTimeout(resolve, 200))
  open()
  await new Promise((resolve) => setTimeout(resolve, 100))
  isOurs = true
  await vi.waitFor(() => expect(ran).toEqual([0, 1]), { timeout: 5_000 })
})
