import { expect, it } from 'vitest'
import { describeLate } from '../broker/support/describe-late.ts'
import { freshDatabase } from '../support/postgres.ts'
import { pipelineChaos } from './pipeline-chaos.ts'

const RIGHT = { lost: 0, twice: 0, foreign: 0, orderBreaks: 0, resultsLost: 0, resultsTwice: 0 }

await describeLate('outbox, Kafka, a job with transactions, inbox', { server: 'kafka', postgres: true }, (url) => {
  it('each stage killed: each effect once, in order', { timeout: 240_000 }, async () => {
    const database = await freshDatabase()
    try {
      const result = await pipelineChaos({ url, database: database.url, events: 600, kills: 3, processes: 1 })
      expect(result).toMatchObject({ ...RIGHT, kills: 3 })
    } finally {
      await database.drop()
    }
  })
})
