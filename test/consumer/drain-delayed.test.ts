import { expect, it } from 'vitest'
import { describeStores, serviceOn } from '../relay/service.ts'

const DELAYED = 1_000
const WAITING = 20

describeStores('a consumer of the outbox that is drained', (place) => {
  it('finds what waits behind many delayed events', { timeout: 120_000 }, async () => {
    const { once, make } = serviceOn(place)
    const notBefore = new Date(Date.now() + 3_600_000)
    for (let n = 0; n < DELAYED; n += 100)
      await make(
        Array.from({ length: 100 }, (_, i) => `delayed ${n + i}`),
        { notBefore },
      )
    await make(Array.from({ length: WAITING }, (_, n) => `now ${n}`))
    const applied: string[] = []
    const consumer = once.consumer(
      'drained',
      { from: once.outbox },
      {
        'step.made': async ({ data }) => void applied.push(data.aggregate),
      },
    )
    await consumer.drain()
    expect(applied).toHaveLength(WAITING)
  })
})
