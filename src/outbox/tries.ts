import { RELAY_DEATHS_MAX, RELAY_SUSPECT_HELD } from '../limits.ts'
import type { HeldEvent, HoldParams } from '../store/outbox.ts'
import { failed } from './holding.ts'
import type { RelayParts } from './relay-parts.ts'

/** After this many deaths, an event is sent alone. If the relay dies again, this event is at fault. */
const ALONE = 2

/**
 * The events that are sent together: they were in flight at the same number of deaths, and each aggregate keeps its
 * order. Events with the fewest deaths come first, so that innocent events are cleared before the culprit is tried
 * again.
 */
export function partOf(events: readonly HeldEvent[]): readonly HeldEvent[] {
  const firsts = new Map<string, HeldEvent>()
  for (const event of events) if (!firsts.has(event.aggregateId)) firsts.set(event.aggregateId, event)
  const tried = Math.min(...[...firsts.values()].map((first) => first.tried))
  const closed = new Set<string>()
  const part: HeldEvent[] = []
  const limit = tried === 0 ? Infinity : tried < ALONE ? RELAY_SUSPECT_HELD : 1
  for (const event of events) {
    if (part.length === limit) break
    // If an event is not sent now, later events of its aggregate are not sent either.
    if (event.tried !== tried) closed.add(event.aggregateId)
    else if (!closed.has(event.aggregateId)) part.push(event)
  }
  return part
}

/** Deaths while the event was sent alone count as attempts. In other deaths, the event may be innocent. */
export function attemptsOf({ attempts, tried }: Pick<HeldEvent, 'attempts' | 'tried'>): number {
  return attempts + Math.max(0, tried - ALONE)
}

/** Gives up an event that killed too many relays. Undefined: the event is tried again. */
export function culprit(parts: RelayParts, event: HeldEvent): HoldParams | undefined {
  const { tried, attempts } = event
  const spent = attempts + tried >= parts.attempts || tried >= RELAY_DEATHS_MAX
  if (tried <= ALONE || !spent || parts.onFailure === 'block') return undefined
  const error = new Error(`${tried} relays ended while they sent this event`)
  return failed(parts, event, { error, retryable: false }, attempts + tried)
}
