import { expect, it } from 'vitest'
import { durationText } from './duration.ts'

it('tells a duration in the largest unit that it fills', () => {
  const told = [0, 999, 1_000, 59_999, 60_000, 5_400_000, 90_000_000].map((ms) => durationText(ms, Math.floor))
  expect(told).toEqual(['0ms', '999ms', '1s', '59s', '1m', '1h', '1d'])
  expect(durationText(5_400_000, (count) => Math.round(count * 10) / 10)).toBe('1.5h')
})
