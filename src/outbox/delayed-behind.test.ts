import { afterEach, expect, test } from 'vitest'
import { effectivelyOnce, event, type Relay } from '../index.ts'
import type { Sink } from '../sink/sink.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import { until } from '../../test/support/until.ts'

const events = { made: event<{ id: string; n: number }>(({ id }) => id) }

let relay: Relay | undefined
afterEach(() => relay?.stop())

test('an event whose aggregate is held up is not sent before its time', async () => {
  const sentAt = new Map<number, number>()
  let broken = true
  const tried: number[] = []
  const sink: Sink = {
    name: 'sink',
    proves: 'accepted',
    dedupes: false,
    orders: false,
    async send(sent) {
      return sent.map(({ data }) => {
        const { n } = data as { n: number }
        tried.push(n)
        if (n === 1 && broken) return { kind: 'failed', error: new Error('not now'), retryable: true } as const
        sentAt.set(n, Date.now())
        return { kind: 'sent' } as const
      })
    },
  }
  const once = effectivelyOnce({ namespace: 'delayed-behind', store: memoryStore(), events, sweep: false })
  const publishing = (n: number, notBefore?: Date): Promise<unknown> =>
    once.run({ scope: 's', key: `${n}`, input: n }, ({ publish }) =>
      publish('made', { id: 'a', n }, notBefore ? { notBefore } : {}),
    )
  await publishing(1)
  relay = await once.relay({ to: sink }).start()
  await until(() => tried.length > 0)
  const notBefore = new Date(Date.now() + 3_000)
  await publishing(2, notBefore)
  // It is read while the one before it waits for its next attempt.
  await new Promise((resolve) => setTimeout(resolve, 300))
  broken = false
  await publishing(3)
  await until(() => sentAt.size === 3, 8_000)
  expect(sentAt.get(2)).toBeGreaterThanOrEqual(notBefore.getTime())
  expect([...sentAt.keys()]).toEqual([1, 3, 2])
})
