import { expect, it } from 'vitest'
import { EnvelopeDelivery } from '../source/envelope.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import { Arrival } from './inbox/arrival.ts'
import type { ConsumerParts } from './parts.ts'
import { passSettled, workOn } from './work.ts'

function arrival(id: string): Arrival {
  const body = JSON.stringify({ id, source: 's', type: 't' })
  const delivery = new EnvelopeDelivery({ body, headers: {}, place: id, source: 's' }, { redelivered: true })
  return new Arrival({ delivery, consumer: 'c', message: id, problem: undefined, seq: 0, at: 0 })
}

it.each([
  { deaths: 1, alone: false },
  { deaths: 2, alone: true },
])('messages that were running at $deaths deaths of a process run alone: $alone', async ({ deaths, alone }) => {
  const { inbox } = memoryStore()
  const batch = [arrival('a'), arrival('b')]
  const ids = batch.map(({ item }) => item.id)
  for (let death = 0; death < deaths; death++) await inbox.trying({ consumer: 'c', ids })
  const settings = {
    name: 'c',
    handlers: new Map([['t', async () => {}]]),
    delivery: 'once',
    attempts: 9,
    leaseMs: null,
  }
  const fates = await workOn({ inbox, settings } as unknown as ConsumerParts<unknown>, batch)
  expect([...fates.values()]).toEqual(batch.map(() => ({ kind: 'again', alone })))
})

it('a position may be witnessed for half the time that its message is remembered', async () => {
  const kept: number[] = []
  const tracker = { settled: (_: unknown, __: unknown, ms: number) => void kept.push(ms), reached: () => [] }
  const settings = { inboxForMs: 10, rememberForMs: 40, lettersForMs: 100 }
  const [applied, parked] = [arrival('a'), arrival('b')]
  const fates = new Map([
    [applied, { kind: 'applied', witness: applied.item.id } as const],
    [parked, { kind: 'parked' } as const],
  ])
  await passSettled({ tracker, settings } as unknown as ConsumerParts<unknown>, [applied, parked], fates)
  expect(kept).toEqual([20, 50])
})
