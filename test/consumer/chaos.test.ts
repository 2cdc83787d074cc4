import { expect, it } from 'vitest'
import { describePostgres, freshDatabase } from '../support/postgres.ts'
import { consumerChaos } from './chaos.ts'

describePostgres('consumers that are killed', (database) => {
  it('apply 2,000 events once each, delivered 1 to 5 times in random order, and keep the order', async () => {
    const result = await consumerChaos({
      database: database.url,
      events: 2_000,
      processes: 4,
      kills: 4,
      timeoutMs: 150_000,
    })
    expect(result).toMatchObject({ lost: 0, twice: 0, inversions: 0, published: 200, deadLetters: 0 })
    // They may be done before the last one is due.
    expect(result.kills).toBeGreaterThanOrEqual(2)
    expect(result.deliveries).toBeGreaterThan(5_000)
  }, 180_000)

  it.each(['ackFirst', 'rowAfterEffect'] as const)(
    'are found out with a planted mistake: %s',
    async (flaw) => {
      const own = await freshDatabase()
      try {
        const result = await consumerChaos({
          database: own.url,
          events: 2_000,
          processes: 4,
          kills: 12,
          timeoutMs: 60_000,
          flaw,
        })
        expect(result.lost + result.twice).toBeGreaterThan(0)
      } finally {
        await own.drop()
      }
    },
    90_000,
  )
})
