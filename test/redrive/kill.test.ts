import { expect, it } from 'vitest'
import { describePostgres } from '../support/postgres.ts'
import { redriveUnderKills } from './kill-run.ts'

const TIMEOUT_MS = 120_000

describePostgres('a redrive whose tool and consumers are killed', (database) => {
  it(
    'applies 500 letters once, in order, beside redeliveries of the same ids',
    async () => {
      const run = { url: database.url, letters: 500, rate: 200, kills: 1, timeoutMs: TIMEOUT_MS - 10_000 }
      const result = await redriveUnderKills(run)
      expect(result).toMatchObject({ applied: 500, twice: 0, lost: 0, outOfOrder: 0, watchExit: 0 })
      expect(result.status).toMatchObject({ state: 'done', letters: 500, applied: 500, failed: 0, blocked: 0, left: 0 })
      // Otherwise nothing was beside it.
      expect(result.redelivered).toBeGreaterThan(100)
    },
    TIMEOUT_MS,
  )
})
