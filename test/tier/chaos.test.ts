import { expect, it } from 'vitest'
import { describeAlone } from '../broker/support/describe-broker.ts'
import { freshDatabase } from '../support/postgres.ts'
import { tierChaos } from './chaos.ts'

describeAlone('a tiered store while Redis is in trouble', 'redis', (own) => {
  it(
    'gives no wrong answer, no answer of a rolled-back transaction and no second effect',
    { timeout: 240_000 },
    async () => {
      const database = await freshDatabase()
      try {
        const size = { replays: 4_000, fresh: 400, seed: 1 }
        const result = await tierChaos({ database: database.url, redis: own.server, ...size, timeoutMs: 200_000 })
        expect(result).toMatchObject({ wrong: 0, unreal: 0, twice: 0, lost: 0 })
        expect(result.replays).toBeGreaterThanOrEqual(size.replays)
        expect(result.fresh).toBe(size.fresh)
        expect(result.rolledBack).toBeGreaterThan(0)
        expect(result.hits).toBeGreaterThan(0)
        expect(Object.values(result.troubles).reduce((sum, n) => sum + n)).toBeGreaterThan(0)
      } finally {
        await database.drop()
      }
    },
  )
})
