import { expect, it } from 'vitest'
import { sinkContract } from '../../src/testing/sink-contract/index.ts'
import { freshDatabase } from '../support/postgres.ts'
import { describeAlone, describeServers } from './support/describe-broker.ts'
import { relayChaos } from './support/relay-chaos.ts'
import { sinkTarget } from './support/sink-target.ts'

describeAlone('the sink contract, NATS', 'nats', (own) => {
  for (const { name, run } of sinkContract(() => sinkTarget('nats', own.server))) {
    it(name, () => expect(run()).resolves.toBeUndefined())
  }
})

describeServers('relays to NATS killed at random', ['postgres', 'nats'], ({ nats }) => {
  it('nothing lost, nothing out of order, nothing twice', { timeout: 120_000 }, async () => {
    const database = await freshDatabase()
    try {
      const params = { broker: 'nats', url: nats, database: database.url, events: 5_000, relays: 2, kills: 3 }
      const result = await relayChaos({ ...params, replace: false, timeoutMs: 20_000 })
      expect(result).toMatchObject({ lost: 0, inversions: 0, duplicates: 0, duplicatesAllowed: false })
    } finally {
      await database.drop()
    }
  })
})
