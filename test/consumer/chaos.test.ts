import { expect, it } from 'vitest'
import { describePostgres, freshDatabase } from '../support/postgres.ts'
import { consumerChaos } from './chaos.ts'

const PLANTED_ROUNDS = 6

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
      // A kill must land in the mistake's short window: a few runs have many times twelve chances.
      let wrong = 0
      for (let round = 0; round < PLANTED_ROUNDS && wrong === 0; round++) {
        const own = await freshDatabase()
        try {
          const of = { database: own.url, events: 2_000, processes: 4, kills: 12, timeoutMs: 60_000, flaw }
          const { lost, twice } = await consumerChaos(of)
          wrong += lost + twice
        } finally {
          await own.drop()
        }
      }
      expect(wrong).toBeGreaterThan(0)
    },
    240_000,
  )
})
