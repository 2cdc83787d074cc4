import { expect, it } from 'vitest'
import { consumerChaos, type ConsumerChaosParams } from '../broker/support/consumer-chaos.ts'
import { describePostgres, freshDatabase } from '../support/postgres.ts'

/** A kill must land in a mistake's short window: a few runs have many chances. */
const PLANTED_ROUNDS = 6
const RIGHT = { lost: 0, twice: 0, orderBreaks: 0, deadLetters: 0, settled: true }

async function run(params: Partial<ConsumerChaosParams> & { readonly broker: string }) {
  const own = await freshDatabase()
  try {
    const usual = { url: '', events: 2_000, consumers: 4, kills: 4, timeoutMs: 150_000 }
    return await consumerChaos({ ...usual, database: own.url, ...params })
  } finally {
    await own.drop()
  }
}

describePostgres('consumers that are killed', () => {
  it.each([
    { broker: 'table', inOrder: false },
    { broker: 'outbox', inOrder: false },
    { broker: 'outbox', inOrder: true },
  ])(
    'apply 2,000 events once each, delivered 1 to 5 times, and keep the order: %o',
    async (source) => {
      const result = await run(source)
      expect(result).toMatchObject(RIGHT)
      // They may be done before the last one is due.
      expect(result.kills).toBeGreaterThanOrEqual(1)
      expect(result.deliveries).toBeGreaterThan(5_000)
    },
    180_000,
  )

  it.each([
    { broker: 'table', flaw: 'ackFirst', kills: 12, shows: 'lost' },
    { broker: 'table', flaw: 'rowAfterEffect', kills: 12, shows: 'twice' },
    { broker: 'table', flaw: 'noInbox', kills: 0, shows: 'twice' },
    { broker: 'table', flaw: 'noPrevious', kills: 0, shows: 'orderBreaks' },
    { broker: 'outbox', inOrder: true, flaw: 'noLanes', kills: 0, shows: 'orderBreaks' },
  ] as const)(
    'are found out with a planted mistake: %o',
    async ({ shows, ...planted }) => {
      let wrong = 0
      for (let round = 0; round < PLANTED_ROUNDS && wrong === 0; round++) {
        wrong += (await run({ ...planted, timeoutMs: 60_000 }))[shows]
      }
      expect(wrong).toBeGreaterThan(0)
    },
    420_000,
  )
})
