import type { BlockedAggregate, EventPlace, StoredEvent } from '../outbox.ts'
import type { Row } from '../store.ts'

/** Reads the rows of the relay's statements. */

export function eventOf(row: Row): StoredEvent {
  return {
    shard: row['shard'] as number,
    seq: row['seq'] as number,
    segment: row['segment'] as number,
    id: row['id'] as string,
    aggregateType: row['aggregatetype'] as string,
    aggregateId: row['aggregateid'] as string,
    type: row['type'] as string,
    payload: row['payload'] as string | null,
    headers: row['headers'] as string | null,
    at: row['at'] as number,
  }
}

export function blockedOf(row: Row): BlockedAggregate {
  return {
    shard: Number(row['shard']),
    aggregateId: String(row['aggregateid']),
    parked: row['parked'] === true,
  }
}

export function byShard(rows: readonly Row[]): Map<number, Row> {
  return new Map(rows.map((row) => [Number(row['shard']), row]))
}

export function numbersOf(list: unknown): number[] {
  return typeof list === 'string' && list !== '' ? list.split(',').map(Number) : []
}

export function placesOf(list: unknown): EventPlace[] {
  if (typeof list !== 'string' || list === '') return []
  return list.split(',').map((place) => {
    const [shard, seq] = place.split(' ').map(Number) as [number, number]
    return { shard, seq }
  })
}

export function numberOrNull(value: unknown): number | null {
  return typeof value === 'number' ? value : null
}
