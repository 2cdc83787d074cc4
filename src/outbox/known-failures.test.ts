import { expect, test } from 'vitest'
import type { Signal } from '../observe/signal.ts'
import { systemClock } from '../platform/clock.ts'
import type { Sink } from '../sink/sink.ts'
import type { HeldEvent } from '../store/outbox.ts'
import { heldItems, type Item } from './item.ts'
import { Sender } from './sender.ts'
import { Shard } from './shard.ts'

const shard = new Shard(
  { shard: 1, token: 1, cursor: 0, segment: 0, counted: 0, tryingTo: null, attempt: 0, blocked: [] },
  '',
)

/** Events that wait to be sent again. `attempts`: how often each of them failed before. */
function held(aggregates: readonly string[], attempts: number): Item[] {
  const events = aggregates.map((aggregateId, index): HeldEvent => ({
    shard: 1,
    seq: index + 1,
    segment: 1,
    id: aggregateId,
    aggregateType: 'a',
    aggregateId,
    type: 'a.b',
    payload: '{}',
    headers: null,
    at: 0,
    state: 'waiting',
    attempts,
    tried: 1,
    resend: 0,
  }))
  return heldItems(events, new Map([[1, shard]]), 's')
}

/** What a sink was given that rejects the events of these aggregates, until it has sent one or the relay pauses. */
async function sent(items: readonly Item[], rejected: readonly string[]) {
  const calls: string[] = []
  const signals: Signal[] = []
  let over = (): void => {}
  const ended = new Promise<void>((resolve) => (over = resolve))
  const sink: Sink = {
    name: 's',
    proves: 'accepted',
    dedupes: false,
    orders: true,
    batch: 1,
    async send([of]) {
      const aggregate = of?.subject ?? ''
      calls.push(aggregate)
      if (rejected.includes(aggregate)) throw new Error('there is no such topic')
      setImmediate(over)
      return [{ kind: 'sent' }]
    },
  }
  const observe = (signal: Signal): void => {
    signals.push(signal)
    if (signal.kind === 'troubled') over()
  }
  const state = { stopping: false, overdue: false, paused: false }
  const random = { next: () => 1 } as never
  const sender = new Sender(
    { sink, clock: systemClock, random, observe, leaseMs: 30_000, rate: null, attempts: 9, onFailure: 'park' } as never,
    { owns: () => true, mayRun: true } as never,
    state,
    () => {},
  )
  sender.add(items)
  await ended
  state.stopping = true
  await sender.abort()
  const failed = sender.takeDecided().flatMap(({ hold }) => hold?.attempts ?? [])
  return { calls, failed, isDown: sender.circuit.down > 0 }
}

test('events that failed before, while others were sent, do not make a sink look down', async () => {
  const bad = ['b1', 'b2', 'b3', 'b4']
  const outcome = await sent(held([...bad, 'good'], 1), bad)
  expect(outcome).toEqual({ calls: [...bad, 'good'], failed: [2, 2, 2, 2], isDown: false })
})

test.each([0, 1])('a sink that rejects everything is down, whatever failed before: %i attempts', async (attempts) => {
  const all = Array.from({ length: 40 }, (_, i) => `a${i}`)
  const { calls, failed, isDown } = await sent(held(all, attempts), all)
  expect({ failed, isDown }).toEqual({ failed: [], isDown: true })
  expect(calls.length).toBeLessThanOrEqual(16)
})
