import { expect, it } from 'vitest'
import { BROKER_WITHIN_MS } from '../limits.ts'
import type { Signal } from '../observe/signal.ts'
import type { Clock } from '../platform/clock.ts'
import type { Delivery, PulledSource, Subscription } from '../source/source.ts'
import { Broker } from './broker.ts'

const never = (): Promise<never> => new Promise(() => {})

/** A broker that answers nothing, and a clock that goes on by hand. */
function silent(): { broker: Broker; signals: Signal[]; pass(ms: number): Promise<void> } {
  let now = 0
  let timers: { at: number; callback: () => void }[] = []
  const clock: Clock = {
    now: () => now,
    after(ms, callback) {
      const timer = { at: now + ms, callback }
      timers.push(timer)
      return () => void (timers = timers.filter((of) => of !== timer))
    },
  }
  const signals: Signal[] = []
  const source = { holdsFor: '30s' } as unknown as PulledSource<unknown>
  const subscription = { receive: never, ack: never, giveBack: never, extend: never, close: never } as Subscription
  const observe = (signal: Signal): void => void signals.push(signal)
  const broker = new Broker({ source, subscription, consumer: 'c', observe, clock })
  return {
    broker,
    signals,
    async pass(ms) {
      now += ms
      const due = timers.filter(({ at }) => at <= now)
      timers = timers.filter(({ at }) => at > now)
      for (const { callback } of due) callback()
      await new Promise((resolve) => setTimeout(resolve, 0))
    },
  }
}

it('gives up what its broker does not answer, and says so', async () => {
  const { broker, signals, pass } = silent()
  const deliveries: Delivery[] = []
  const asked = [broker.ack(deliveries), broker.giveBack(deliveries, 0), broker.extend(deliveries), broker.close()]
  await pass(BROKER_WITHIN_MS - 1)
  expect(signals.filter(({ kind }) => kind === 'troubled')).toEqual([])
  await pass(1)
  expect(await Promise.all(asked)).toEqual([false, false, false, false])
  const error = expect.objectContaining({ message: expect.stringContaining('no answer from the broker') })
  expect(signals.filter(({ kind }) => kind === 'troubled')).toEqual(
    asked.map(() => ({ kind: 'troubled', task: 'consumer', error })),
  )
})

it('tells for as long as a read brings nothing, although it was to end', async () => {
  const { broker, signals, pass } = silent()
  void broker.receive({ max: 1, waitMs: 1_000, signal: new AbortController().signal })
  await pass(BROKER_WITHIN_MS + 999)
  expect(signals).toEqual([])
  await pass(1)
  expect(signals).toHaveLength(1)
  await pass(BROKER_WITHIN_MS)
  expect(signals).toHaveLength(2)
  expect(signals[0]).toMatchObject({ kind: 'troubled', task: 'consumer' })
})
