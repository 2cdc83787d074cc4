import { describe, expect, test } from 'vitest'
import { MUTANTS } from './sim/mutants.ts'
import { huntRedis, playRedis, runSchedule } from './sim/play.ts'

const SCHEDULES = 200
const HUNT_SCHEDULES = 1_000
const TIMEOUT_MS = 900_000

/** The same in full size: npm run sim:redis */
describe('the Redis store in simulated worlds', () => {
  test(`${SCHEDULES} schedules keep every promise`, { timeout: TIMEOUT_MS }, async () => {
    const { effects, faults, broken } = await playRedis(1, SCHEDULES)
    expect(broken).toEqual([])
    expect(effects).toBeGreaterThan(SCHEDULES)
    expect(Object.entries(faults).filter(([, n]) => n === 0)).toEqual([])
  })

  test('a seed is a world: the same trace, byte for byte', async () => {
    for (const seed of [3, 17]) expect((await runSchedule(seed)).trace).toBe((await runSchedule(seed)).trace)
  })

  test.each(MUTANTS)('$of, a mutant: $name', { timeout: TIMEOUT_MS }, async (mutant) => {
    expect(await huntRedis(mutant, HUNT_SCHEDULES)).not.toMatchObject({ broke: null })
  })
})
