import { SCRAPE_MS_MAX } from './limits.ts'
import { problemsIn, type Readiness, type Status } from '../once/status.ts'
import { withinMs } from '../operation/deadline.ts'
import { systemClock } from '../platform/clock.ts'
import { READ, type Instrument } from './instruments.ts'
import type { LabelBounds, Labels } from './labels.ts'

/** An instance whose database gauges are read. */
export interface WatchedInstance {
  status(): Promise<Status>
  ready(): Promise<Readiness>
}

interface Reading {
  readonly instrument: Instrument
  readonly value: number
  readonly labels: Labels
}

/** The value of one series. */
export interface Gauge {
  readonly instrument: Instrument
  readonly labels: Readonly<Record<string, string>>
  value: number
}

/** A slow read goes on after its scrape. The next scrape waits for the same read, so that reads do not pile up. */
const running = new WeakMap<WatchedInstance, Promise<Status>>()

function statusOf(once: WatchedInstance): Promise<Status> {
  const known = running.get(once)
  if (known) return known
  const status = once.status().finally(() => running.delete(once))
  running.set(once, status)
  return status
}

/**
 * Never rejects, and ends in time. If the database does not answer, only `ready` is left. Names beyond the limit share
 * one series.
 */
export async function readGauges(once: WatchedInstance, bounds: LabelBounds): Promise<Iterable<Gauge>> {
  const gauges = new Map<string, Gauge>()
  for (const { instrument, value, labels } of await readingsOf(once)) {
    const series = bounds.series(instrument.name, labels)
    const key = `${instrument.name} ${series.key}`
    const gauge = gauges.get(key)
    if (gauge) gauge.value = together(instrument, gauge.value, value)
    else gauges.set(key, { instrument, labels: series.labels, value })
  }
  return gauges.values()
}

/** Counts are added up. Ages and relays are not: the worst of them must be seen. */
function together(instrument: Instrument, one: number, other: number): number {
  if (instrument === READ.relays) return Math.min(one, other)
  return instrument.unit === 's' ? Math.max(one, other) : one + other
}

async function readingsOf(once: WatchedInstance): Promise<readonly Reading[]> {
  try {
    if ((await once.ready()).ready) {
      const status = await withinMs(systemClock, SCRAPE_MS_MAX, statusOf(once))
      return [reading(READ.ready, 1), ...gaugesOf(status)]
    }
  } catch {
    // The gauge `ready` reports the failure.
  }
  return [reading(READ.ready, 0)]
}

function gaugesOf(status: Status): Reading[] {
  const { operations, destinations, unsent, consumers, sweptAgoMs, sizes } = status
  const { running, abandoned, unknown } = operations
  const found: (Reading | null)[] = [reading(READ.problems, problemsIn(status).length)]
  for (const [state, value] of Object.entries({ running, abandoned, unknown }))
    found.push(reading(READ.operations, value, { state }))
  found.push(age(READ.abandonedFor, operations.oldestAbandonedMs))
  for (const { name: destination, waiting, oldestMs, parked, retrying, relays } of destinations) {
    found.push(
      reading(READ.waiting, waiting, { destination }),
      age(READ.waitingFor, oldestMs ?? 0, { destination }),
      reading(READ.parked, parked, { destination }),
      reading(READ.retrying, retrying, { destination }),
      reading(READ.relays, relays, { destination }),
    )
  }
  found.push(reading(READ.unsent, unsent.events), age(READ.unsentFor, unsent.oldestMs ?? 0))
  for (const { name: consumer, letters, oldestLetterMs, retrying, seenAgoMs } of consumers) {
    found.push(
      reading(READ.letters, letters, { consumer }),
      age(READ.lettersFor, oldestLetterMs ?? 0, { consumer }),
      reading(READ.messagesRetrying, retrying, { consumer }),
      age(READ.seenAgo, seenAgoMs, { consumer }),
    )
  }
  found.push(age(READ.sweptAgo, sweptAgoMs))
  for (const { table, rows, bytes } of sizes) {
    found.push(reading(READ.bytes, bytes, { table }), rows === null ? null : reading(READ.rows, rows, { table }))
  }
  return found.filter((one) => one !== null)
}

function reading(instrument: Instrument, value: number, labels: Labels = {}): Reading {
  return { instrument, value, labels }
}

function age(instrument: Instrument, ms: number | null, labels?: Labels): Reading | null {
  return ms === null ? null : reading(instrument, ms / 1_000, labels)
}
