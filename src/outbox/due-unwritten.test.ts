import { afterEach, expect, test } from 'vitest'
import { onceError } from '../errors.ts'
import { effectivelyOnce, event, inProcessSink, type Relay } from '../index.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import type { MemoryStore } from '../store/memory/memory-store.ts'
import type { Outbox } from '../store/outbox.ts'
import { until } from '../../test/support/until.ts'

/** Over half of the lease, so that the relay stops to write, and less than the lease, so that the shards stay its own. */
const AWAY_MS = 1_300
const events = { made: event<{ id: string; n: number }>(({ id }) => id) }

let relay: Relay | undefined
afterEach(() => relay?.stop())

test('due events are sent although the database could not write what was set aside with them', async () => {
  const memory = memoryStore()
  let breaks = false
  let awayUntil = 0
  const outbox = new Proxy(memory.outbox, {
    get(of, name: keyof Outbox) {
      const method = of[name] as ((...args: unknown[]) => Promise<unknown>) | undefined
      if (typeof method !== 'function') return method
      return async (...args: unknown[]) => {
        if (breaks && name === 'settleHeld') {
          breaks = false
          awayUntil = performance.now() + AWAY_MS
        }
        if (performance.now() < awayUntil) throw onceError('ONCE_STORE_UNAVAILABLE')
        return method.apply(of, args)
      }
    },
  })
  const store: MemoryStore = { ...memory, outbox }
  const once = effectivelyOnce({ namespace: 'unwritten', store, events, guard: 'off', sweep: false })
  const sent: string[] = []
  const to = inProcessSink(
    ({ data }) => {
      const { id, n } = data as { id: string; n: number }
      if (id === 'parked') throw Object.assign(new Error('no'), { final: true })
      sent.push(`${id}${n}`)
    },
    { name: 'sink' },
  )
  relay = await once.relay({ to, attempts: 1, lease: '2s' }).start()
  const publish = (key: string, made: readonly (readonly [string, number])[], notBefore?: Date): Promise<unknown> =>
    once.run({ scope: 's', key, input: null }, async ({ publish: put }) => {
      for (const [id, n] of made) await put('made', { id, n }, notBefore ? { notBefore } : {})
    })
  const parked = async (): Promise<number> => (await once.parked.list({ destination: 'sink' })).length
  await publish('first', [['parked', 1]])
  await until(async () => (await parked()) === 1)
  const soon = new Date(Date.now() + 400)
  await publish('second', [['parked', 2], ...['a', 'b', 'c'].map((id) => [id, 1] as const)], soon)
  breaks = true
  await until(() => awayUntil > 0)
  await until(() => sent.length === 3, 8_000)
  expect(sent.toSorted()).toEqual(['a1', 'b1', 'c1'])
})
