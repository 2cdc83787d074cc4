import { expect, it } from 'vitest'
import { inTurn } from './in-turn.ts'

it('takes one of each at a time, in the order of each', () => {
  expect(inTurn([['a1', 'a2', 'a3'], [], ['b1'], ['c1', 'c2']])).toEqual(['a1', 'b1', 'c1', 'a2', 'c2', 'a3'])
  expect(inTurn([])).toEqual([])
})
