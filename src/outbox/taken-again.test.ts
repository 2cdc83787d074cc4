import { afterEach, expect, test } from 'vitest'
import { effectivelyOnce, event, type Relay } from '../index.ts'
import type { OutgoingEvent, Sink, Verdict } from '../sink/sink.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import type { MemoryStore } from '../store/memory/memory-store.ts'
import type { Outbox } from '../store/outbox.ts'
import { until } from '../../test/support/until.ts'

const events = { made: event<{ id: string; n: number }>(({ id }) => id) }
const SENT: Verdict = { kind: 'sent' }

let relay: Relay | undefined
afterEach(() => relay?.stop())

test('an event that fails after its shard was lost and taken again holds up nothing of the new lease', async () => {
  const memory = memoryStore()
  const inner = memory.outbox
  let forgets = false
  let leases = 0
  const outbox: Outbox = {
    ...inner,
    async lease(params) {
      const leased = await inner.lease(params)
      if (leased.length > 0) leases++
      return leased
    },
    // A database that was put back knows none of the leases.
    async beat(params) {
      const beat = await inner.beat(params)
      if (!forgets) return beat
      forgets = false
      return { ...beat, ours: [] }
    },
  }
  const calls: string[] = []
  let reject: ((error: Error) => void) | undefined
  const sink: Sink = {
    name: 'sink',
    proves: 'accepted',
    dedupes: false,
    orders: false,
    concurrency: 4,
    batch: 1,
    async send([of]: readonly OutgoingEvent[]) {
      const { id, n } = (of as OutgoingEvent).data as { id: string; n: number }
      calls.push(`${id}${n}`)
      if (calls.filter((call) => call === 'a1').length === 1 && id === 'a' && n === 1) {
        return new Promise<readonly Verdict[]>((_, rejects) => (reject = rejects))
      }
      return [SENT]
    },
  }
  const store: MemoryStore = { ...memory, outbox }
  const once = effectivelyOnce({ namespace: 'taken-again', store, events, sweep: false })
  const publishing = (key: string, made: readonly (readonly [string, number])[]): Promise<unknown> =>
    once.run({ scope: 's', key, input: null }, async ({ publish }) => {
      for (const [id, n] of made) await publish('made', { id, n })
    })
  await publishing('k', [
    ['a', 1],
    ['a', 2],
    ['b', 1],
  ])
  relay = await once.relay({ to: sink, lease: '600ms' }).start()
  await until(() => calls.includes('b1'))
  const before = leases
  forgets = true
  await until(() => leases > before)
  // What was read under the new lease waits behind the event that is still under way.
  await publishing('l', [['b', 2]])
  await until(() => calls.includes('b2'))
  reject?.(new Error('reset'))
  await publishing('m', [['a', 3]])
  await until(() => calls.includes('a3'))
  expect(calls.filter((call) => call.startsWith('a'))).toEqual(['a1', 'a1', 'a2', 'a3'])
})
