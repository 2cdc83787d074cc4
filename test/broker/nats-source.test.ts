import { expect, it } from 'vitest'
import { freshDatabase } from '../support/postgres.ts'
import { consumerChaos } from './support/consumer-chaos.ts'
import { describeAlone, describeServers } from './support/describe-broker.ts'
import { sourceCases } from './support/source-cases.ts'
import { sourceTarget } from './support/source-target.ts'

describeAlone('what a consumer relies on, NATS', 'nats', (own) => {
  for (const { name, takesServerAway, run } of sourceCases(() => sourceTarget('nats', own.server))) {
    it(name, { concurrent: !takesServerAway }, () => expect(run()).resolves.toBeUndefined())
  }
})

describeServers('consumers of NATS killed at random', ['postgres', 'nats'], ({ nats }) => {
  it('events that come 1 to 5 times in random order: every effect once, in order', { timeout: 180_000 }, async () => {
    const database = await freshDatabase()
    try {
      const params = { broker: 'nats', url: nats, database: database.url, events: 2_000, consumers: 4, kills: 2 }
      const { lost, twice, inversions, deadLetters } = await consumerChaos({ ...params, timeoutMs: 120_000 })
      expect({ lost, twice, inversions, deadLetters }).toEqual({ lost: 0, twice: 0, inversions: 0, deadLetters: 0 })
    } finally {
      await database.drop()
    }
  })
})
