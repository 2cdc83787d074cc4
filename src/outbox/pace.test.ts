import { expect, it } from 'vitest'
import { RELAY_CALL_MS } from '../limits.ts'
import { Pace } from './pace.ts'

it('a call has as many events as the sink sends in the time for one call', () => {
  const pace = new Pace({ batch: undefined, leaseMs: 1e9 })
  pace.took(100, RELAY_CALL_MS * 2)
  expect(pace.size).toBe(50)
  pace.took(50, RELAY_CALL_MS * 100)
  expect(pace.size).toBe(1)
  pace.took(1, 0)
  expect(pace.size).toBe(4)
})
