import { orderBreaks } from './checkers/commit-order.ts'
import { runSchedule } from './run.ts'
import { eventsOf } from './trace.ts'
import type { TraceEvent } from './trace.ts'

/**
 * The operations of one world: enough for many takeovers between relays, few enough for the trace to fit into memory.
 */
const OPERATIONS = 300

export interface EventsShift {
  readonly events: number
  readonly seed: number
  readonly stride: number
}

export interface EventsTally {
  worlds: number
  /** Events committed to the outbox. */
  events: number
  /** Events accepted by the broker, each counted once. */
  sent: number
  /** Events parked with a reason. */
  parked: number
  skipped: number
  /** Events that were neither sent nor parked when the world was at rest. */
  lost: number
  /** Events that first arrived out of the order of their aggregate. */
  orderBreaks: number
  /** Repeated arrivals of an event. The broker of this world does not deduplicate. */
  duplicates: number
  crashes: number
  steps: number
  /** The seeds that violated an invariant, with the first violations. */
  readonly broken: { readonly seed: number; readonly violations: readonly string[] }[]
}

export function newEventsTally(): EventsTally {
  const counts = { sent: 0, parked: 0, skipped: 0, lost: 0, orderBreaks: 0, duplicates: 0, crashes: 0, steps: 0 }
  return { worlds: 0, events: 0, ...counts, broken: [] }
}

export function mergeEvents(into: EventsTally, { broken, ...counts }: EventsTally): void {
  for (const [name, count] of Object.entries(counts)) into[name as 'events'] += count
  into.broken.push(...broken)
}

/** Runs worlds full of producers and relays until this many events were committed. */
export async function workEvents(shift: EventsShift, progress: (events: number) => void): Promise<EventsTally> {
  const limit = Error.stackTraceLimit
  Error.stackTraceLimit = 0
  const tally = newEventsTally()
  try {
    for (let seed = shift.seed; tally.events < shift.events; seed += shift.stride) {
      const world = await runSchedule(seed, undefined, { relays: true, operations: OPERATIONS })
      mergeEvents(tally, { ...judge(world.trace), worlds: 1, crashes: world.crashes, steps: world.steps })
      if (world.violations.length > 0) tally.broken.push({ seed, violations: world.violations })
      tally.orderBreaks += orderBreaks(world.violations)
      progress(tally.events)
    }
    return tally
  } finally {
    Error.stackTraceLimit = limit
  }
}

function judge(trace: readonly TraceEvent[]): EventsTally {
  const tally = newEventsTally()
  const given = new Map<string, 'parked' | 'skipped'>()
  for (const happened of trace) {
    if (happened.kind === 'commit') tally.events += happened.events.length
    else if (happened.kind === 'held') {
      if (happened.state === 'parked' || happened.state === 'skipped') given.set(happened.event, happened.state)
      else given.delete(happened.event)
    } else if (happened.kind === 'accept') {
      if (happened.first) tally.sent += 1
      else tally.duplicates += 1
    }
  }
  for (const state of given.values()) tally[state] += 1
  for (const { pending } of eventsOf(trace, 'end')) tally.lost += pending.length
  return tally
}
