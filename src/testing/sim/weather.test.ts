import { describe, expect, test } from 'vitest'
import { ANY } from './plan.ts'
import { runSchedule } from './run.ts'
import { IMPORTED } from './imports.ts'
import type { TraceEvent } from './trace.ts'
import type { Weather } from './weather.ts'

const SEEDS = 120
const TIMEOUT_MS = 240_000

/** The trace event that proves that each kind of weather had an effect. */
const SIGNS: Readonly<Record<Weather, (happened: TraceEvent) => boolean>> = {
  versions: (happened) => happened.kind === 'letter' && happened.reason === 'unknownType' && happened.from === null,
  resends: (happened) => happened.kind === 'resent',
  imports: (happened) => happened.kind === 'letter' && happened.reason === IMPORTED && happened.from === null,
  cancels: (happened) => happened.kind === 'cancelled',
  pauses: (happened) => happened.kind === 'pausing' && happened.paused,
  erasures: (happened) => happened.kind === 'erased',
  refusals: (happened) => happened.kind === 'undone' && happened.effect,
  filters: (happened) => happened.kind === 'commit' && happened.events.some(({ unwanted }) => unwanted),
}

describe('worlds with bad weather', () => {
  test.each(Object.keys(SIGNS) as Weather[])('%s: keep every promise', { timeout: TIMEOUT_MS }, async (weather) => {
    let seen = 0
    for (let seed = 1; seed <= SEEDS; seed++) {
      const size = { ...ANY, company: 'nobody', relays: true, consumers: true, weather } as const
      const { violations, trace } = await runSchedule(seed, undefined, size)
      expect(violations, `seed ${seed}`).toEqual([])
      seen += trace.filter(SIGNS[weather]).length
    }
    expect(seen).toBeGreaterThan(SEEDS / 2)
  })
})
