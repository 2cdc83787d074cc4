import { afterAll, beforeAll, expect, it } from 'vitest'
import { freshDatabase } from '../support/postgres.ts'
import { sinkContract } from '../../src/testing/sink-contract/index.ts'
import { describeLate } from './support/describe-late.ts'
import { brokerOutage } from './support/outage.ts'
import { proxyOf, type Proxy } from './support/proxy.ts'
import { relayChaos } from './support/relay-chaos.ts'
import { sinkTarget } from './support/sink-target.ts'

for (const kind of ['sqs', 'sqsFifo'] as const) {
  await describeLate(`the sink contract, ${kind}`, { server: 'sqs' }, (url) => {
    let proxy: Proxy
    beforeAll(async () => {
      proxy = await proxyOf(url)
    })
    afterAll(() => proxy.close())
    for (const { name, run } of sinkContract(() => sinkTarget(kind, { ...proxy, stop: () => proxy.close() }))) {
      it(name, () => expect(run()).resolves.toBeUndefined())
    }
  })
}

await describeLate('relays to SQS killed at random', { server: 'sqs', postgres: true }, (url) => {
  it.each(['sqs', 'sqsFifo'])(
    '%s: nothing lost; in a FIFO queue nothing twice or out of order',
    { timeout: 180_000 },
    async (broker) => {
      const database = await freshDatabase()
      try {
        const params = { broker, url, database: database.url, events: 600, relays: 2, kills: 2 }
        const result = await relayChaos({ ...params, replace: false, timeoutMs: 60_000 })
        expect(result.lost).toBe(0)
        expect(result.ordered).toBe(broker === 'sqsFifo')
        if (broker === 'sqsFifo') expect(result).toMatchObject({ inversions: 0, duplicates: 0 })
      } finally {
        await database.drop()
      }
    },
  )
})

await describeLate('SQS out of reach in mid-run', { server: 'sqs', postgres: true }, (url) => {
  it('everything arrives after its return, without a tight loop meanwhile', { timeout: 120_000 }, async () => {
    const database = await freshDatabase()
    const proxy = await proxyOf(url)
    try {
      const params = { broker: 'sqsFifo', server: proxy, database: database.url, events: 300 }
      const result = await brokerOutage({ ...params, outageMs: 3_000, timeoutMs: 60_000 })
      expect(result).toMatchObject({ lost: 0, inversions: 0 })
      expect(result.attempts).toBeGreaterThan(0)
      expect(result.attempts).toBeLessThan(30)
    } finally {
      await proxy.close()
      await database.drop()
    }
  })
})
