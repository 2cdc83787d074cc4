import { describe, expect, test } from 'vitest'
import { ANY } from './plan.ts'
import type { Size } from './plan.ts'
import { runSchedule } from './run.ts'

const SEEDS = 200
const TIMEOUT_MS = 240_000
const WORLD: Size = { ...ANY, company: 'nobody', relays: true, releases: true }

describe('worlds in which parked events are released and skipped', () => {
  test('keep every promise, and are not empty', { timeout: TIMEOUT_MS }, async () => {
    const seen = { released: 0, skipped: 0, arrived: 0 }
    for (let seed = 1; seed <= SEEDS; seed++) {
      const { violations, trace } = await runSchedule(seed, undefined, WORLD)
      expect(violations, `seed ${seed}`).toEqual([])
      const parked = new Set<string>()
      const released = new Set<string>()
      for (const happened of trace) {
        if (happened.kind === 'held') {
          const { event, state } = happened
          if (state === 'waiting' && parked.delete(event)) {
            released.add(event)
            seen.released += 1
          }
          if (state === 'skipped' && parked.delete(event)) seen.skipped += 1
          if (state === 'parked') parked.add(event)
        } else if (happened.kind === 'accept' && released.delete(happened.event)) seen.arrived += 1
      }
      expect(parked.size, `seed ${seed}`).toBe(0)
    }
    expect(Object.values(seen).every((times) => times > SEEDS / 4)).toBe(true)
  })
})
