import type { StoredStatus } from '../status.ts'
import type { Row } from '../store.ts'

/** Rows of a status, by the names both databases give their columns. */
export function operationsStatusOf(row: Row | undefined): StoredStatus['operations'] {
  return {
    running: Number(row?.['running'] ?? 0),
    abandoned: Number(row?.['abandoned'] ?? 0),
    unknown: Number(row?.['unknown'] ?? 0),
    oldestAbandonedMs: maybe(row?.['oldest_ms']),
  }
}

export function destinationStatusOf(row: Row): StoredStatus['destinations'][number] {
  return {
    name: String(row['name']),
    waiting: Number(row['waiting'] ?? 0),
    oldestMs: maybe(row['oldest_ms']),
    parked: Number(row['parked']),
    relays: Number(row['relays']),
  }
}

export function consumerStatusOf(row: Row): StoredStatus['consumers'][number] {
  return {
    name: String(row['name']),
    seenAgoMs: Number(row['seen_ms']),
    rememberMs: Number(row['remember_ms']),
    letters: Number(row['letters']),
    oldestLetterMs: maybe(row['oldest_ms']),
  }
}

export function maybe(value: unknown): number | null {
  return value === null || value === undefined ? null : Number(value)
}
