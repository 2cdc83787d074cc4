import { expect, it } from 'vitest'
import type { HeldEvent, Outbox } from '../store/outbox.ts'
import { take } from './taking.ts'

it('an aggregate whose event may be cancelled waits with all its events', async () => {
  const held = (id: string, aggregateId: string): HeldEvent =>
    ({ id, aggregateId, headers: '{"notbefore":"2020-01-01T00:00:00.000Z"}' }) as HeldEvent
  const outbox = {
    takeDelayed: async () => [
      { id: 'a1', cancelled: false },
      { id: 'b1', cancelled: true },
    ],
  } as unknown as Outbox
  const taken = await take(outbox, [held('a1', 'a'), held('a2', 'a'), held('b1', 'b'), held('c1', 'c')])
  expect(taken.ready.map(({ id }) => id)).toEqual(['c1'])
  expect(taken.cancelled.map(({ id }) => id)).toEqual(['b1'])
  expect([...taken.busy]).toEqual(['a'])
})
