import { describe, expect, it } from 'vitest'
import type { Clock } from '../platform/clock.ts'
import { SignalLines } from './signals.ts'

/** A clock that goes on when the test says so. */
function steppedClock(): Clock & { step(ms: number): void } {
  let now = 0
  let timers: { at: number; callback: () => void }[] = []
  return {
    now: () => now,
    after(ms, callback) {
      const timer = { at: now + ms, callback }
      timers.push(timer)
      return () => void (timers = timers.filter((one) => one !== timer))
    },
    step(ms) {
      now += ms
      const due = timers.filter(({ at }) => at <= now)
      timers = timers.filter(({ at }) => at > now)
      for (const { callback } of due) callback()
    },
  }
}

const parked = (seq: number) => ({ kind: 'parked', destination: 'hook', shard: 3, seq, reason: 'HTTP 410' }) as const

describe('the lines of signals', () => {
  it('tell one of a kind each second, with a count of the others', () => {
    const lines: string[] = []
    const clock = steppedClock()
    const { observe } = new SignalLines((line) => lines.push(line), clock)
    for (let seq = 1; seq <= 100; seq++) observe(parked(seq))
    observe({ kind: 'troubled', task: 'relay', error: new Error('connect ECONNREFUSED\nat somewhere') })
    expect(lines.splice(0)).toEqual([
      "parked: event 3/1 for 'hook': HTTP 410. See: effectively-once parked list",
      'trouble in the relay: connect ECONNREFUSED',
    ])
    clock.step(1_000)
    expect(lines.splice(0)).toEqual([
      "parked: event 3/100 for 'hook': HTTP 410. See: effectively-once parked list (and 98 more)",
    ])
    observe(parked(101))
    expect(lines).toEqual([])
    clock.step(1_000)
    expect(lines.splice(0)).toEqual(["parked: event 3/101 for 'hook': HTTP 410. See: effectively-once parked list"])
    clock.step(1_000)
    observe(parked(102))
    expect(lines.splice(0)).toHaveLength(1)
  })

  it('tell at the end what is left', () => {
    const lines: string[] = []
    const clock = steppedClock()
    const telling = new SignalLines((line) => lines.push(line), clock)
    for (let seq = 1; seq <= 3; seq++) telling.observe(parked(seq))
    telling.end()
    expect(lines[1]).toMatch(/^parked: event 3\/3 .* \(and 1 more\)$/)
    clock.step(5_000)
    expect(lines).toHaveLength(2)
  })

  it('tell advice, alarms and pauses, and nothing of the daily work', () => {
    const lines: string[] = []
    const { observe } = new SignalLines((line) => lines.push(line), steppedClock())
    observe({ kind: 'sent', destination: 'hook', events: 3 })
    observe({ kind: 'closed', cutOff: [] })
    expect(lines).toEqual([])
    observe({ kind: 'advice', task: 'relay', message: 'hook: num_replicas is 1' })
    observe({ kind: 'miscounted', destination: 'hook', segment: 4, shard: 3, stored: 9, acknowledged: 8 })
    observe({ kind: 'paused', task: 'relay', name: 'hook' })
    observe({ kind: 'resumed', task: 'relay', name: 'hook' })
    expect(lines).toEqual([
      'advice: hook: num_replicas is 1',
      "alarm: segment 4 of shard 3 holds 9 events, and 'hook' acknowledged 8. The segment is kept",
      "the relay 'hook' is paused",
      "the relay 'hook' was resumed",
    ])
  })

  it('tell the cause of a client that tried several times', () => {
    const lines: string[] = []
    const refused = new AggregateError([new Error('connect ECONNREFUSED ::1:9092')])
    const error = new AggregateError([refused, refused], 'metadata failed 2 times.')
    new SignalLines((line) => lines.push(line), steppedClock()).observe({ kind: 'troubled', task: 'relay', error })
    expect(lines).toEqual(['trouble in the relay: metadata failed 2 times. connect ECONNREFUSED ::1:9092'])
  })
})
