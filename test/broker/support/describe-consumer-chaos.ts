import { expect, it } from 'vitest'
import { freshDatabase } from '../../support/postgres.ts'
import { consumerChaos, type ConsumerChaosResult } from './consumer-chaos.ts'
import type { PlantedFlaw } from './consumer-flaws.ts'

const RIGHT = { lost: 0, twice: 0, orderBreaks: 0, deadLetters: 0, settled: true }
const EVENTS = 2_000
const PLANTED_ROUNDS = 4

/** The tests of consumers of one broker that are killed at random. `planted`: a mistake by which its order is not kept. */
export function survivesKills(broker: string, url: string, planted: PlantedFlaw): void {
  const run = async (inOrder: boolean, kills: number, flaw: PlantedFlaw = 'none'): Promise<ConsumerChaosResult> => {
    const database = await freshDatabase()
    try {
      const of = { broker, url, database: database.url, events: EVENTS, consumers: 4, kills, inOrder, flaw }
      return await consumerChaos({ ...of, timeoutMs: 150_000 })
    } finally {
      await database.drop()
    }
  }

  it('events that come 1 to 5 times in random order: every effect once, in order', { timeout: 200_000 }, async () => {
    expect(await run(false, 2)).toMatchObject(RIGHT)
  })

  it(
    'events that come in order, and again: every effect once, in the order they came in',
    { timeout: 200_000 },
    async () => {
      expect(await run(true, 3)).toMatchObject(RIGHT)
    },
  )

  it('which would not be so with a planted mistake', { timeout: 400_000 }, async () => {
    let breaks = 0
    for (let round = 0; round < PLANTED_ROUNDS && breaks === 0; round++) {
      breaks += (await run(true, 0, planted)).orderBreaks
    }
    expect(breaks).toBeGreaterThan(0)
  })
}
