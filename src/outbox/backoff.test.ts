import { expect, test } from 'vitest'
import { RELAY_ATTEMPTS_DEFAULT } from '../limits.ts'
import { Dice } from '../testing/sim/dice.ts'
import type { Random } from '../platform/random.ts'
import { backoffMs, pauseWhileDownMs } from './backoff.ts'

test('by default, an event that fails is tried for about an hour', () => {
  const minutes = Array.from({ length: 200 }, (_, seed) => {
    const dice = new Dice(seed)
    let waitedMs = 0
    for (let failures = 1; failures < RELAY_ATTEMPTS_DEFAULT; failures++) waitedMs += backoffMs(dice, failures)
    return waitedMs / 60_000
  })
  expect(Math.min(...minutes)).toBeGreaterThan(45)
  expect(Math.max(...minutes)).toBeLessThan(75)
})

test('what is away is looked at again within 1.5 s, however long it was away', () => {
  const random = { next: () => 1 } as Random
  expect([1, 2, 5, 50].map((failures) => pauseWhileDownMs(random, failures))).toEqual([100, 200, 1_500, 1_500])
})
