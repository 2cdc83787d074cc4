import { expect, test } from 'vitest'
import { systemClock } from '../../platform/clock.ts'
import { Waits } from './waits.ts'

test('one more than there are connections may wait at a time, and the next ones in turn', async () => {
  let connections = 1
  const waits = new Waits(systemClock, () => connections)
  expect([waits.enter(), waits.enter()]).toEqual([true, true])
  const entered: string[] = []
  for (const name of ['a', 'b', 'c']) void Promise.resolve(waits.enter()).then((is) => entered.push(`${name} ${is}`))
  waits.leave()
  await Promise.resolve()
  expect(entered).toEqual(['a true'])
  connections = 2
  waits.leave()
  await Promise.resolve()
  expect(entered).toEqual(['a true', 'b true'])
  await expect.poll(() => entered, { timeout: 5_000 }).toEqual(['a true', 'b true', 'c false'])
})

test('all places together are shorter than a quarter of the shortest lease', () => {
  const waits = new Waits(systemClock, () => 1)
  expect(waits.withinMs).toBe(1_000)
  waits.protect(2_000)
  waits.protect(30_000)
  expect(waits.withinMs).toBe(250)
  // Replicas that are in order need some time, too.
  waits.protect(100)
  expect(waits.withinMs).toBe(200)
})
