import { expect, it } from 'vitest'
import { isTypePatterns, matchesAny } from './type-patterns.ts'

it('patterns are texts that are not empty', () => {
  const lists = [[], ['a', 'b.*'], [''], ['a', ''], [1], 'a', undefined]
  expect(lists.map(isTypePatterns)).toEqual([true, true, false, false, false, false, false])
})

it('a star stands for any text, and every other character for itself', () => {
  const matches = matchesAny(['invoice.*', 'a+b', '*.late'])
  const types = ['invoice.paid', 'invoice.', 'a+b', 'x.late', 'invoice', 'my.invoice.paid', 'aab', 'x.later']
  expect(types.filter(matches)).toEqual(['invoice.paid', 'invoice.', 'a+b', 'x.late'])
})
