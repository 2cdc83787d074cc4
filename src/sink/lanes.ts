import type { OutgoingEvent } from './sink.ts'

/**
 * Groups events by aggregate, as indexes in order. One event of each lane is in flight at a time, but many lanes are.
 */
export function lanesOf(events: readonly OutgoingEvent[]): (readonly number[])[] {
  const lanes = new Map<string, number[]>()
  for (const [index, { aggregate }] of events.entries()) {
    const lane = lanes.get(aggregate.id)
    if (lane) lane.push(index)
    else lanes.set(aggregate.id, [index])
  }
  return [...lanes.values()]
}
