import { describe, expect, it } from 'vitest'
import { describePostgres } from '../support/postgres.ts'
import { reconciliationChaos } from './chaos.ts'

describe('a reconciliation that is killed', () => {
  describePostgres('PostgreSQL', (database) => {
    it('finds exactly the planted faults, and compensates each once', async () => {
      const options = { database: database.url, entries: 6_000, faults: 60, kills: 3, seed: 7 }
      const result = await reconciliationChaos(options)
      expect(result).toMatchObject({ kills: 3, found: { missing: 60, double: 60, orphaned: 60 }, compensated: 180 })
      expect(result).toMatchObject({ missed: 0, wrong: 0, twice: 0 })
    }, 120_000)
  })
})
