import { expect, it } from 'vitest'
import { sinkContract } from '../../src/testing/sink-contract/index.ts'
import { freshDatabase } from '../support/postgres.ts'
import { describeAlone, describeServers } from './support/describe-broker.ts'
import { relayChaos } from './support/relay-chaos.ts'
import { sinkTarget } from './support/sink-target.ts'

describeAlone('the sink contract, Redis', 'redis', (own) => {
  for (const { name, run } of sinkContract(() => sinkTarget('redis', own.server))) {
    it(name, () => expect(run()).resolves.toBeUndefined())
  }
})

describeServers('relays to Redis killed at random', ['postgres', 'redis'], ({ redis }) => {
  it('nothing lost, nothing out of order', { timeout: 120_000 }, async () => {
    const database = await freshDatabase()
    try {
      const params = { broker: 'redis', url: redis, database: database.url, events: 5_000, relays: 2, kills: 3 }
      const result = await relayChaos({ ...params, replace: false, timeoutMs: 20_000 })
      expect(result).toMatchObject({ lost: 0, inversions: 0 })
    } finally {
      await database.drop()
    }
  })
})
