import { expect, it } from 'vitest'
import { Steadiness } from './steadiness.ts'

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

it('a database that answers late was held up, and so was a process that stood still', async () => {
  const slow = new Steadiness(() => pause(600))
  const from = performance.now()
  await pause(400)
  expect(slow.heldUpSince(from)).toBe(true)
  slow.close()

  const busy = new Steadiness(async () => {})
  await pause(100)
  const begun = performance.now()
  while (performance.now() - begun < 400);
  expect(busy.heldUpSince(begun)).toBe(true)
  expect(busy.heldUpSince(Infinity)).toBe(false)
  busy.close()
})
