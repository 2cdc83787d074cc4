import { expect, test } from 'vitest'
import { effectivelyOnce, event } from '../index.ts'
import { shardOf } from '../outbox/publisher.ts'
import { systemClock } from '../platform/clock.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import type { Outbox } from '../store/outbox.ts'
import { outboxSource } from './outbox.ts'

const events = { made: event<{ id: string }>(({ id }) => id) }

test('a shard that is lost takes only its own returned events with it', async () => {
  const store = memoryStore()
  const once = effectivelyOnce({ namespace: 'lost', store, events, sweep: false })
  await once.run({ scope: 's', key: 'k', input: null }, async ({ publish }) => {
    await publish('made', { id: 'a' })
    await publish('made', { id: 'b' })
  })
  const inner = store.outbox
  let lost: number | null = null
  const beat: Outbox['beat'] = async (params) => {
    const told = await inner.beat(params)
    const ours = told.ours.filter((shard) => shard !== lost)
    lost = null
    return { ...told, ours }
  }
  const surroundings = { clock: systemClock, observe: () => undefined, source: 'test', keptForMs: 60_000 }
  const parts = { ...surroundings, outbox: { ...inner, beat }, leaseMs: 300, onPublished: () => () => undefined }
  const from = await outboxSource(parts).open({ consumer: 'c' } as never)
  const revoked: string[] = []
  from.onRevoked?.((partitions) => void revoked.push(...partitions))
  const { signal } = new AbortController()
  const received = () => from.receive({ max: 10, waitMs: 100, signal })
  const first = await received()
  expect(new Set(first.map(({ aggregate }) => aggregate))).toEqual(new Set(['a', 'b']))
  const ofB = first.filter(({ aggregate }) => aggregate === 'b')
  await from.giveBack(ofB, { delayMs: 300 })
  lost = shardOf('a')
  const seen: unknown[] = []
  for (const until = Date.now() + 3_000; !seen.includes('b') && Date.now() < until;)
    seen.push(...(await received()).map(({ aggregate }) => aggregate))
  expect(revoked).toEqual([String(shardOf('a'))])
  expect(seen).toContain('b')
  await from.close()
})
