import { describe, expect, test } from 'vitest'
import { ANY } from './plan.ts'
import type { Size } from './plan.ts'
import { runSchedule } from './run.ts'

// One world in twenty aborts a redrive.
const SEEDS = 160
const TIMEOUT_MS = 240_000
const WORLD: Size = { ...ANY, company: 'nobody', relays: true, consumers: true, redrives: true }

describe('worlds in which dead letters are redriven', () => {
  test('keep every promise, and are not empty', { timeout: TIMEOUT_MS }, async () => {
    const seen = { redriven: 0, discarded: 0, paused: 0, aborted: 0, done: 0, resumed: 0, died: 0 }
    for (let seed = 1; seed <= SEEDS; seed++) {
      const { violations, trace } = await runSchedule(seed, undefined, WORLD)
      expect(violations, `seed ${seed}`).toEqual([])
      let running = false
      for (const happened of trace) {
        if (happened.kind === 'letter' && happened.state === 'redriven') seen.redriven += 1
        if (happened.kind === 'letter' && happened.state === 'discarded') seen.discarded += 1
        if (happened.kind === 'process' && happened.what === 'died' && running) seen.died += 1
        if (happened.kind !== 'redrive') continue
        const { from, state } = happened
        running = state === 'running'
        if (from === 'paused' && running) seen.resumed += 1
        if (state === 'paused' || state === 'aborted' || state === 'done') seen[state] += 1
      }
    }
    const never = Object.entries(seen).flatMap(([what, times]) => (times === 0 ? what : []))
    expect(never).toEqual([])
  })
})
