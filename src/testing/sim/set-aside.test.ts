import { describe, expect, test } from 'vitest'
import { ANY } from './plan.ts'
import type { Size } from './plan.ts'
import { runSchedule } from './run.ts'

const SEEDS = 200
const TIMEOUT_MS = 240_000
const WORLD: Size = { ...ANY, company: 'nobody', relays: true, consumers: true, rivals: true }

describe('worlds in which messages are given up while they run', () => {
  test('keep every promise, and are not empty', { timeout: TIMEOUT_MS }, async () => {
    const seen = { parked: 0, skipped: 0, applied: 0 }
    for (let seed = 1; seed <= SEEDS; seed++) {
      const { violations, trace } = await runSchedule(seed, undefined, WORLD)
      expect(violations, `seed ${seed}`).toEqual([])
      for (const happened of trace) {
        if (happened.kind === 'commit') seen.applied += happened.applied.length
        if (happened.kind !== 'letter' || happened.from !== null) continue
        if (happened.state === 'parked' || happened.state === 'skipped') seen[happened.state] += 1
      }
    }
    expect(Object.values(seen).every((times) => times > SEEDS / 2)).toBe(true)
  })
})
