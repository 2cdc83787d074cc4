import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { systemClock } from './clock.ts'

it.each([2 ** 31, Infinity])(
  'does not call back at once after %d ms, which is more than a timer of Node takes',
  async (ms) => {
    let called = false
    const cancel = systemClock.after(ms, () => (called = true))
    await sleep(50)
    cancel()
    expect(called).toBe(false)
  },
)
