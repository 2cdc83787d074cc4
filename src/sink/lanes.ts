import type { OutgoingEvent } from './sink.ts'

/** The events of each aggregate, by index, in order: one of a lane is under way at a time, many lanes are. */
export function lanesOf(events: readonly OutgoingEvent[]): (readonly number[])[] {
  const lanes = new Map<string, number[]>()
  for (const [index, { aggregate }] of events.entries()) {
    const lane = lanes.get(aggregate.id)
    if (lane) lane.push(index)
    else lanes.set(aggregate.id, [index])
  }
  return [...lanes.values()]
}
