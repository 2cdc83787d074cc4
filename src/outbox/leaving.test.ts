import { expect, it } from 'vitest'
import { until } from '../../test/support/until.ts'
import { effectivelyOnce, event } from '../index.ts'
import { SHARDS } from '../limits.ts'
import { SENT, type Sink } from '../sink/sink.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import type { Outbox } from '../store/outbox.ts'
import { shardOf } from './publisher.ts'

const events = { made: event<{ of: string; n: number }>(({ of }) => of) }
const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

/** Two aggregates of the last shard. A relay gives its last shards away first. */
function lastAggregates(): [string, string] {
  const found: string[] = []
  for (let i = 0; found.length < 2; i++) if (shardOf(`a${i}`) === SHARDS - 1) found.push(`a${i}`)
  return found as [string, string]
}

it('a relay hands over nothing more of a shard that it gives away', async () => {
  const [one, other] = lastAggregates()
  const memory = memoryStore()
  const inner = memory.outbox
  let relays = 1
  let shared = 0
  let released = 0
  const outbox: Outbox = {
    ...inner,
    async beat(params) {
      const beat = await inner.beat(params)
      if (relays > 1) shared++
      return { ...beat, relays }
    },
    async release(params) {
      released += params.leases.length
      return inner.release(params)
    },
  }
  const calls: string[] = []
  let answer = (): void => {}
  const to: Sink = {
    name: 'sink',
    proves: 'accepted',
    dedupes: false,
    orders: false,
    batch: 1,
    async send(sent) {
      const [call = ''] = sent.map(({ data }) => Object.values(data as object).join())
      calls.push(call)
      if (calls.length === 1) return [{ kind: 'failed', error: new Error('no'), retryable: true }]
      if (calls.length === 2) await new Promise<void>((resolve) => (answer = resolve))
      return [SENT]
    },
  }
  const once = effectivelyOnce({
    namespace: 'leaving',
    store: { ...memory, outbox },
    events,
    sweep: false,
    guard: 'off',
  })
  const publish = (...made: { of: string; n: number }[]): Promise<unknown> =>
    once.run({ scope: 's', key: JSON.stringify(made), input: null }, async (context) => {
      for (const data of made) await context.publish('made', data)
    })
  const relay = await once.relay({ to, lease: '600ms' }).start()
  await publish({ of: one, n: 1 })
  await until(() => calls.length === 2)
  // The second event waits for room, so the third is not written as held behind the first.
  await publish({ of: other, n: 1 }, { of: one, n: 2 })
  await wait(200)
  relays = 2
  await until(() => shared > 1)
  await wait(50)
  answer()
  await until(() => released > 0)
  await wait(200)
  expect(calls).toEqual([`${one},1`, `${one},1`])
  await relay.stop()
  relays = 1
  await once.relay({ to }).drain()
  expect(calls.slice(2).toSorted()).toEqual([`${one},2`, `${other},1`].toSorted())
})
