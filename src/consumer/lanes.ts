import type { Arrival } from './inbox/arrival.ts'
import type { ConsumerParts } from './parts.ts'

/** The aggregate whose order counts. Null: none. */
function laneOf({ item: { aggregate, source } }: Arrival): string | null {
  return aggregate === null ? null : `${source.length}:${source}${aggregate}`
}

/**
 * The messages of a batch that do not follow one of `held` in their aggregate. Messages that follow one wait with it.
 */
export function notBehind(batch: readonly Arrival[], held: (arrival: Arrival) => boolean): Set<Arrival> {
  const lanes = new Set<string>()
  const free = new Set<Arrival>()
  for (const arrival of batch) {
    const lane = laneOf(arrival)
    if (lane !== null && lanes.has(lane)) continue
    if (!held(arrival)) free.add(arrival)
    else if (lane !== null) lanes.add(lane)
  }
  return free
}

/** Whether an aggregate's order is the order in which its messages arrive. */
export function keepsArrivalOrder<Tx>({ settings: { from } }: ConsumerParts<Tx>): boolean {
  return from.kind === 'pulled' && from.features.orders
}
