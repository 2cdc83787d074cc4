import type { ParkedEvent, ParkedLine } from '../parked.ts'
import type { Row } from '../store.ts'

export function parkedOf(row: Row): ParkedEvent {
  return {
    shard: Number(row['shard']),
    seq: Number(row['seq']),
    id: String(row['id']),
    aggregateId: String(row['aggregateid']),
    type: String(row['type']),
    attempts: Number(row['attempts']),
    reason: row['reason'] as string | null,
    publishedAt: Number(row['published_at']),
    heldAt: Number(row['held_at']),
  }
}

export function parkedLineOf(row: Row): ParkedLine {
  return {
    shard: Number(row['shard']),
    aggregateId: String(row['aggregateid']),
    head: row['head'] === null ? null : Number(row['head']),
  }
}
