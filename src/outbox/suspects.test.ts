import { expect, it } from 'vitest'
import { effectivelyOnce, event } from '../index.ts'
import { SENT, type Sink } from '../sink/sink.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import type { Outbox } from '../store/outbox.ts'
import { systemClock } from '../platform/clock.ts'
import { systemRandom } from '../platform/random.ts'
import { relaysDied } from '../../test/support/dead-relays.ts'
import { createRelay } from './relay.ts'

const events = { made: event<{ id: string }>(({ id }) => id) }
const DOWN_MS = 3_000
const pause = (ms: number): Promise<unknown> => new Promise((resolve) => setTimeout(resolve, ms))

it('while a suspect is sent alone nothing else is, and nothing is lost when the sink was down meanwhile', async () => {
  const inner = memoryStore()
  const plain = inner.outbox
  // Reads take their time: the sink's next try comes due meanwhile.
  const read: Outbox['read'] = async (params) => {
    await pause(50)
    return plain.read(params)
  }
  const once = effectivelyOnce({ namespace: 'suspect', store: inner, events, sweep: false, guard: 'off' })
  const ids = Array.from({ length: 12 }, (_, n) => `a${n}`)
  const make = (key: string, made: readonly string[]): Promise<unknown> =>
    once.run({ scope: 's', key, input: key }, async ({ publish }) => {
      for (const id of made) await publish('made', { id })
    })
  await make('suspect', ['x'])
  // Two relays died while they sent it.
  await relaysDied(plain, { destination: 's', aggregate: 'x', deaths: 2 })
  for (const round of ['1', '2', '3']) await make(round, ids)
  await pause(10)

  const wellAt = performance.now() + DOWN_MS
  const sent = new Map<string, number>()
  let together = 0
  let underWay: string[] = []
  const sink: Sink = {
    name: 's',
    proves: 'handled',
    dedupes: false,
    orders: true,
    async send(given) {
      const subjects = given.map(({ subject }) => subject)
      underWay.push(...subjects)
      if (underWay.includes('x') && underWay.length > 1) together++
      await pause(100)
      underWay = underWay.filter((subject) => !subjects.includes(subject))
      if (performance.now() < wellAt) throw new Error('down')
      for (const subject of subjects) sent.set(subject, (sent.get(subject) ?? 0) + 1)
      return given.map(() => SENT)
    },
  }
  const seams = { clock: systemClock, random: { ...systemRandom, next: () => 0 }, observe: () => undefined }
  const surroundings = { ...seams, outbox: { ...plain, read }, source: 'test', closed: () => false }
  const running = await createRelay(surroundings, { to: sink }).start()
  const total = (): number => [...sent.values()].reduce((sum, count) => sum + count, 0)
  for (const until = wellAt + 4_000; performance.now() < until && total() < 37;) await pause(50)
  await running.stop()
  await once.close()
  expect(together).toBe(0)
  expect(Object.fromEntries(sent)).toEqual(Object.fromEntries([['x', 1], ...ids.map((id) => [id, 3] as const)]))
}, 30_000)
