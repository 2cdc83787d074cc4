import { expect, it } from 'vitest'
import { durationText, milliseconds } from './duration.ts'

it('tells a duration in the largest unit that it fills', () => {
  const told = [0, 999, 1_000, 59_999, 60_000, 5_400_000, 90_000_000].map((ms) => durationText(ms, Math.floor))
  expect(told).toEqual(['0ms', '999ms', '1s', '59s', '1m', '1h', '1d'])
  expect(durationText(5_400_000, (count) => Math.round(count * 10) / 10)).toBe('1.5h')
})

it('refuses what is no duration, and shows it in quotes', () => {
  const limits = { option: 'replayFor', min: 1_000, max: 60_000 }
  const parse = (value: unknown) => () => milliseconds(value, 0, limits)
  expect(parse('soon')).toThrow(/replayFor must be a duration such as '30s', not 'soon'$/)
  expect(parse(30)).toThrow(/not '30'$/)
  expect(parse('999ms')).toThrow(/replayFor must be from 1000 to 60000 ms, not 999ms$/)
  expect([parse('1s')(), parse('1m')(), parse(undefined)()]).toEqual([1_000, 60_000, 0])
})
