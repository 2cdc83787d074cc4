import { expect, it } from 'vitest'
import { systemClock } from './clock.ts'
import { Throttle } from './rate-limit.ts'

it.each([0.001, 1e-9, Number.MIN_VALUE])('a rate of %d per second sets timers that are not too long', (rate) => {
  const waits: number[] = []
  const clock = { ...systemClock, after: (ms: number) => (waits.push(ms), () => {}) }
  const throttle = new Throttle(clock, rate, () => {})
  throttle.started(1)
  expect(throttle.room()).toBe(0)
  // setTimeout takes 32 bits, and calls back at once past them.
  expect(waits).toEqual([60_000])
})

it('asks again exactly when the next one may start', () => {
  let now = 0
  const waits: number[] = []
  const clock = { ...systemClock, now: () => now, after: (ms: number) => (waits.push(ms), () => {}) }
  const throttle = new Throttle(clock, 10, () => {})
  expect(throttle.room()).toBe(1)
  throttle.started(1)
  now = 75
  expect(throttle.room()).toBe(0)
  expect(waits).toEqual([25])
})
