import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { effectivelyOnce, event, type Sink } from '../index.ts'
import { BROKER_WITHIN_MS } from '../limits.ts'
import { memoryStore } from '../store/memory/memory-store.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance', 'Date'] }))
afterEach(() => void vi.useRealTimers())

const never = (): Promise<never> => new Promise(() => {})
const once = effectivelyOnce({
  namespace: 'never',
  store: memoryStore(),
  events: { made: event<{ id: string }>(({ id }) => id) },
  sweep: false,
  guard: 'off',
})

it('the start of a relay ends although its sink never opens', async () => {
  const to: Sink = { name: 'never', proves: 'accepted', dedupes: false, orders: false, open: never, send: never }
  for (const begin of ['start', 'drain'] as const) {
    const [begun] = await Promise.allSettled([
      once.relay({ to })[begin](),
      vi.advanceTimersByTimeAsync(BROKER_WITHIN_MS),
    ])
    expect(String(begun.status === 'rejected' && begun.reason)).toContain(
      'never: the sink did not open within 30000 ms',
    )
  }
})

it('the start of a consumer ends although its source never opens, and a late subscription is closed', async () => {
  let closed = false
  let open: (subscription: unknown) => void = () => {}
  const { outbox } = once
  const from = { ...outbox, name: 'never', open: () => new Promise((resolve) => (open = resolve)) }
  const consumer = once.consumer('late', { from: from as typeof outbox }, { made: async () => {} })
  const [begun] = await Promise.allSettled([consumer.start(), vi.advanceTimersByTimeAsync(BROKER_WITHIN_MS)])
  expect(String(begun.status === 'rejected' && begun.reason)).toContain('the source did not open within 30000 ms')
  open({ close: async () => (closed = true) })
  await vi.advanceTimersByTimeAsync(1)
  expect(closed).toBe(true)
})
