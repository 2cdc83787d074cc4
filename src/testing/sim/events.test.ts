import { describe, expect, test } from 'vitest'
import { workEvents } from './events.ts'

const EVENTS = 5_000
/** The worlds of this seed have crashes, which the test below verifies. */
const SEED = 100

describe('many events in the simulated world', () => {
  test(`${EVENTS} of them: none lost, none out of order`, { timeout: 300_000 }, async () => {
    const tally = await workEvents({ events: EVENTS, seed: SEED, stride: 1 }, () => undefined)
    const { lost, orderBreaks, broken } = tally
    expect({ lost, orderBreaks, broken }).toEqual({ lost: 0, orderBreaks: 0, broken: [] })
    expect(tally.events).toBeGreaterThanOrEqual(EVENTS)
    // A world without faults proves nothing.
    expect(tally.crashes).toBeGreaterThan(0)
    expect(tally.duplicates).toBeGreaterThan(0)
    expect(tally.sent + tally.parked + tally.skipped).toBeGreaterThanOrEqual(tally.events)
  })
})
