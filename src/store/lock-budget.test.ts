import { expect, it } from 'vitest'
import { LockBudget } from './lock-budget.ts'

const opened = async (part: number): Promise<LockBudget> => {
  const budget = new LockBudget(async () => part, Boolean)
  await budget.open()
  return budget
}

it('gives what is there, in the order of asking, and never more', async () => {
  const budget = await opened(100)
  expect(budget.most()).toBe(25)
  expect([budget.take(60), budget.take(40)]).toEqual([undefined, undefined])
  const begun: string[] = []
  void budget.take(50)?.then(() => begun.push('first'))
  void budget.take(1)?.then(() => begun.push('second'))
  budget.give(40)
  await Promise.resolve()
  expect(begun).toEqual([])
  budget.give(60)
  await Promise.resolve()
  expect(begun).toEqual(['first', 'second'])
})

it('leaves each of many its part', async () => {
  const budget = await opened(100)
  for (let n = 0; n < 9; n++) budget.hold(1)
  expect(budget.most()).toBe(10)
  expect(budget.most(50)).toBe(2)
})

it('is halved once for all who met a full table, and grows again', async () => {
  const budget = await opened(100)
  budget.hold(10)
  budget.hold(10)
  expect([budget.crowded(), budget.crowded()]).toEqual([50, null])
  budget.give(10)
  expect(budget.crowded()).toBe(null)
  budget.give(10)
  expect(budget.crowded()).toBe(25)
  for (let n = 0; n < 8 * 75; n++) {
    budget.hold(1)
    budget.give(1)
  }
  expect(budget.most()).toBe(25)
})

it('lets one run alone that needs more than there is', async () => {
  const budget = await opened(1)
  expect([budget.most(), budget.take(3)]).toEqual([1, undefined])
})

it('asks again after it could not be asked', async () => {
  let asked = 0
  const budget = new LockBudget(async () => {
    if (asked++ === 0) throw new Error('away')
    return 8
  }, Boolean)
  await expect(budget.open()).rejects.toThrow('away')
  await budget.open()
  await budget.open()
  expect([asked, budget.most()]).toEqual([2, 2])
})
