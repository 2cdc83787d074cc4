import { expect, test } from 'vitest'
import { effectivelyOnce, event } from '../index.ts'
import { inProcessSink } from '../sink/in-process.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import type { Outbox } from '../store/outbox.ts'

const events = { made: event<{ n: number }>(() => 'one') }

test('a drain over a promotion ends after the events are sent again', async () => {
  const memory = memoryStore()
  const inner = memory.outbox
  let timeline = ''
  const outbox: Outbox = {
    ...inner,
    identity: async () => ({ server: `server ${timeline}`, timeline }),
    // A promoted server accepts nothing that was sent before.
    async ack(params) {
      const isOther = params.server !== undefined && params.server !== `server ${timeline}`
      return isOther ? { ours: [], parked: [] } : inner.ack(params)
    },
  }
  const once = effectivelyOnce({ namespace: 'p', store: { ...memory, outbox }, events, sweep: false })
  await once.run({ scope: 's', key: 'k', input: null }, ({ publish }) => publish('made', { n: 1 }))
  const sent: unknown[] = []
  const to = inProcessSink(({ data }) => {
    sent.push(data)
    timeline = '2'
  })
  await once.relay({ to }).drain()
  expect(sent).toEqual([{ n: 1 }, { n: 1 }])
  expect(await once.relay({ to }).drain()).toBe(0)
})
