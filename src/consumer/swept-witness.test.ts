import { afterEach, expect, test } from 'vitest'
import { effectivelyOnce, type Signal } from '../index.ts'
import { events, logOf } from '../../test/support/memory-log.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import type { Inbox } from '../store/inbox.ts'

const pause = (ms: number): Promise<unknown> => new Promise((resolve) => setTimeout(resolve, ms))

const ends: (() => unknown)[] = []
afterEach(async () => {
  for (const end of ends.splice(0)) await end()
})

test('what was forgotten because it is old is passed: the database has not gone back', async () => {
  const store = memoryStore()
  const signals: Signal[] = []
  const observe = (signal: Signal): void => void signals.push(signal)
  const once = effectivelyOnce({ namespace: 'swept', store, events, guard: 'off', sweep: false, observe })
  ends.push(() => once.close())
  let open = (): void => {}
  const gate = new Promise<void>((resolve) => (open = resolve))
  const ran: number[] = []
  const consumer = once.consumer(
    'c',
    { from: logOf([0, 1, 2, 4]), batch: 1, attempts: 1, inboxFor: '1s', rememberFor: '1s', horizon: 'warn' },
    {
      'step.made': async ({ data }) => {
        ran.push(data.n)
        if (data.n === 0) await gate
      },
    },
  )
  await consumer.start()
  ends.unshift(() => consumer.stop())
  await pause(1_500)
  await (store.inbox as Inbox<unknown>).sweep({ limit: 100 })
  open()
  await pause(3_000)
  expect(ran.toSorted((a, b) => a - b)).toEqual([0, 1, 2, 4])
  expect(signals.filter((of) => of.kind === 'troubled' && String(of.error).includes('gone back'))).toEqual([])
}, 20_000)
