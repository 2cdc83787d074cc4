import { describe, expect, test } from 'vitest'
import { RELAY_SUSPECT_HELD } from '../limits.ts'
import type { HeldEvent } from '../store/outbox.ts'
import type { RelayParts } from './relay-parts.ts'
import { attemptsOf, culprit, partOf } from './tries.ts'

const [headers, payload, aggregateType, type] = [null, '1', 'made', 'made']
let seq = 0

function event(aggregateId: string, tried: number, attempts = 0): HeldEvent {
  const known = { shard: 1, seq: ++seq, segment: 1, id: `e${seq}`, at: 0, state: 'waiting', resend: 0 } as const
  return { ...known, aggregateId, tried, attempts, headers, payload, aggregateType, type }
}

const parts = (attempts: number, onFailure: RelayParts['onFailure'] = 'park'): RelayParts =>
  ({ attempts, onFailure, random: { next: () => 0.5 } }) as RelayParts

describe('what is sent together', () => {
  test('everything, where no relay died', () => {
    const events = [event('a', 0), event('b', 0), event('a', 0)]
    expect(partOf(events)).toEqual(events)
    expect(partOf([])).toEqual([])
  })

  test('what was under way at fewer deaths goes first, and nothing of an aggregate before what is left out', () => {
    const [a, b] = [event('a', 0), event('b', 2)]
    expect(partOf([b, a, event('a', 1), event('a', 0), event('b', 0)])).toEqual([a])
  })

  test('after a death in parts, after the next one by one', () => {
    const once = Array.from({ length: 40 }, (_, n) => event(`a${n}`, 1))
    expect(partOf(once)).toEqual(once.slice(0, RELAY_SUSPECT_HELD))
    const twice = once.map((of) => ({ ...of, aggregateId: `b-${of.aggregateId}`, tried: 2 }))
    expect(partOf(twice)).toEqual(twice.slice(0, 1))
    expect(partOf([...twice, ...once])).toEqual(once.slice(0, RELAY_SUSPECT_HELD))
  })
})

describe('the culprit', () => {
  test.each([
    // deaths, failures, attempts it may have, given up
    [2, 0, 1, false],
    [3, 0, 1, true],
    [3, 0, 4, false],
    [4, 0, 4, true],
    [3, 1, 4, true],
    [0, 9, 1, false],
    [9, 0, 250, false],
    [10, 0, 250, true],
    [3, 200, 250, false],
  ])('%i deaths and %i failures of %i: %s', (tried, failures, attempts, given) => {
    const held = culprit(parts(attempts), event('a', tried, failures))
    expect(held?.state).toBe(given ? 'parked' : undefined)
    if (given)
      expect(held).toMatchObject({ attempts: tried + failures, reason: expect.stringContaining('relays ended') })
    expect(culprit(parts(attempts, 'block'), event('a', tried, failures))).toBeUndefined()
    expect(culprit(parts(attempts, 'skip'), event('a', tried, failures))?.state).toBe(given ? 'skipped' : undefined)
  })

  test('whoever was alone when a relay died had an attempt, the others perhaps not', () => {
    expect([0, 1, 2, 3, 4].map((tried) => attemptsOf({ attempts: 1, tried }))).toEqual([1, 1, 1, 2, 3])
  })
})
