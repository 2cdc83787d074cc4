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

it('only a held timer keeps the process alive', () => {
  const alive = (): number => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length
  const before = alive()
  const cancels = [systemClock.after(60_000, () => {}), systemClock.after(60_000, () => {}, false)]
  expect(alive()).toBe(before)
  cancels.push(systemClock.after(60_000, () => {}, true))
  expect(alive()).toBe(before + 1)
  for (const cancel of cancels) cancel()
})
