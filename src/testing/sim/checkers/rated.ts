import { eventsOf } from '../trace.ts'
import type { EventOf } from '../trace.ts'
import type { Checker } from './checker.ts'

/** The clock advances between the rate limiter's read and the call of the sink. */
const SLACK_EVENTS = 1

export const rated: Checker = {
  id: 'I33',
  says: 'a relay with a rate limit stays within its events per second, and sends at most one second of them in a burst',
  check(trace) {
    const [settings] = eventsOf(trace, 'relay')
    const rate = settings?.relay.rate ?? null
    if (rate === null) return []
    const all = eventsOf(trace, 'handed')
    const processes = new Set(all.map(({ process }) => process))
    const isSlow = (name: string): boolean =>
      isWithin(
        rate,
        all.filter(({ process }) => process === name),
      )
    return [...processes].filter((name) => !isSlow(name)).map((name) => `${name} handed over more than its rate`)
  },
}

/** Models a token bucket that holds one second's worth of events and starts full. */
function isWithin(rate: number, handed: readonly EventOf<'handed'>[]): boolean {
  let tokens = Math.max(1, rate)
  let before: number | undefined
  for (const { at, events } of handed) {
    tokens = Math.min(Math.max(1, rate), tokens + ((at - (before ?? at)) / 1_000) * rate)
    tokens -= events.length
    before = at
    if (tokens < -SLACK_EVENTS) return false
  }
  return true
}
