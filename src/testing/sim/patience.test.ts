import { describe, expect, test } from 'vitest'
import { Dice } from './dice.ts'
import { SOUND } from './flaw.ts'
import type { PlannedEvent, Temper } from './outbox-plan.ts'
import { STEPS_PER_MS, stepsInPeace } from './patience.ts'
import { ANY, drawSettings } from './plan.ts'
import { runSchedule } from './run.ts'

const SIZE = { ...ANY, relays: true, consumers: true, readers: true }
/**
 * Events that kill the relays that send them, published three times. This world needs 12,280 steps without faults, most
 * of them waits for leases.
 */
const LONG_WAITS = 31_341

function world(): Parameters<typeof stepsInPeace>[0] {
  return { ...drawSettings(new Dice(1), SIZE), redrives: false }
}

function planned(taste: Temper): { events: PlannedEvent[] } {
  return { events: [{ type: 'made', aggregate: 'agg-0', temper: { is: 'fine' }, taste, delayMs: 0 }] }
}

describe('the bound of a world in peace', () => {
  test('covers the leases that must lapse after an event killed whoever read it, for each reader and each time it is published', () => {
    const settings = world()
    const { attempts, holdsForMs } = settings.consumer!
    expect(settings.readers).toHaveLength(2)
    const more = stepsInPeace(settings, [planned({ is: 'deadly' })]) - stepsInPeace(settings, [planned({ is: 'fine' })])
    expect(more).toBeGreaterThanOrEqual(STEPS_PER_MS * 3 * 2 * attempts * holdsForMs)
  })

  test('covers the backoffs of what fails, each twice as long as the one before, for each reader and each time it is published', () => {
    const fails = (times: number): number => stepsInPeace(world(), [planned({ is: 'failing', times })])
    expect(fails(2) - fails(1)).toBe(STEPS_PER_MS * 3 * 2 * 200)
    expect(fails(5) - fails(4)).toBe(STEPS_PER_MS * 3 * 2 * 1_600)
  })

  test('covers clients that come back twice after their answers have expired', () => {
    const settings = world()
    const longer = { ...settings, replayForMs: settings.replayForMs + 1_000 }
    expect(stepsInPeace(longer, []) - stepsInPeace(settings, [])).toBe(STEPS_PER_MS * 4_000)
  })

  test('a world that waits long comes to rest within it', async () => {
    expect((await runSchedule(LONG_WAITS, SOUND, { ...SIZE, readers: false })).violations).toEqual([])
  })
})
