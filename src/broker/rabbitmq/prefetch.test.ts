import { setImmediate as turn } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { CONSUMER_BYTES_MAX } from '../../limits.ts'
import { RabbitmqPrefetch } from './prefetch.ts'

it('asks for few events at first, then for as many more as fit, and anew when their size changes', async () => {
  const asked: (number | string)[] = []
  const prefetch = new RabbitmqPrefetch({
    most: 1_000,
    consume: async (count) => `tag ${asked.push(count)}`,
    cancel: async (tag) => asked.push(tag),
  })
  const adapt = async (): Promise<typeof asked> => {
    prefetch.adapt()
    await turn()
    return asked.splice(0)
  }
  await prefetch.start()
  // Nothing came, so nobody knows how large the events are.
  expect(await adapt()).toEqual([16])
  prefetch.came(CONSUMER_BYTES_MAX / 100)
  expect(await adapt()).toEqual([100 - 16])
  expect(await adapt()).toEqual([])
  for (let n = 0; n < 200; n++) prefetch.came(1)
  // The former consumer goes first. The next one comes when what the former was sent is settled.
  expect(await adapt()).toEqual(['tag 1'])
  expect(await adapt()).toEqual([])
  for (let n = 0; n < 200; n++) prefetch.settled()
  expect(await adapt()).toEqual([1_000 - 16])
})
