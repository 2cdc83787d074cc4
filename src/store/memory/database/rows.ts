import type { Answer } from '../../../lifecycle/answer.ts'
import type { RecordState, StoredRecord } from '../../../lifecycle/record.ts'
import type { HeldState, StoredEvent } from '../../outbox.ts'
import type { Claimed, EventRow, OperationNotes } from '../../store.ts'

/**
 * The library's own tables. Times are microseconds of the database's clock. A token is such a time, or the previous
 * token plus one.
 */
export interface RecordRow {
  readonly id: string
  readonly scope: string
  readonly fingerprint: string
  readonly fingerprintVersion: number
  readonly state: RecordState
  readonly token: number
  readonly life: number
  readonly attempt: number
  readonly leaseUntil: number | null
  readonly expiresAt: number
  readonly forgetAt: number
  /** The details of a leased operation that an operator sees. */
  readonly about?: OperationNotes | undefined
}

/** The sealed input of an operation that can be recovered. */
export interface RecoverRow {
  readonly namespace: string
  readonly name: string
  readonly input: string
}

export interface AnswerRow extends Answer {
  readonly id: string
  readonly token: number
  readonly day: string
}

export interface StepRow {
  readonly id: string
  readonly life: number
  readonly name: string
  readonly state: 'started' | 'done'
  readonly result: string | null
}

export interface ChunkRow {
  readonly id: string
  readonly life: number
  readonly start: number
  readonly bytes: Uint8Array
}

export interface SentEventRow extends EventRow {
  readonly seq: number
  readonly createdAt: number
}

/** One row per relay and destination, with the time until which the relay counts as alive. */
export interface RelayRow {
  readonly destination: string
  readonly id: string
  readonly until: number
}

export interface ShardRow {
  readonly destination: string
  readonly shard: number
  readonly token: number
  readonly leaseUntil: number
}

export interface AckRow {
  readonly destination: string
  readonly shard: number
  readonly cursor: number
  readonly token: number
  readonly segment: number
  readonly counted: number
  readonly tryingTo: number | null
  readonly attempt: number
}

export interface HeldRow {
  readonly destination: string
  readonly shard: number
  readonly seq: number
  readonly aggregateId: string
  readonly state: HeldState
  readonly attempts: number
  /** How often a relay was sending the event when the relay died. */
  readonly tried: number
  /** The number of the operator's resend that the event belongs to, or 0. */
  readonly resend: number
  readonly dueAt: number | null
  readonly heldAt: number
  readonly reason: string | null
}

/**
 * A delayed event, which can be cancelled until it is due. The first change of its state decides for all destinations.
 */
export interface DelayedRow extends Pick<EventRow, 'shard' | 'headers'> {
  readonly state: 'waiting' | 'taken' | 'cancelled'
}

const DAY_MICROS = 86_400_000_000
let lastDay = { number: Number.NaN, text: '' }

/** The UTC day of a time in microseconds. The last day is cached, because most calls ask for the same day. */
export function dayOf(micros: number): string {
  const number = Math.floor(micros / DAY_MICROS)
  if (number !== lastDay.number) lastDay = { number, text: new Date(micros / 1000).toISOString().slice(0, 10) }
  return lastDay.text
}

export function storedRecordOf(row: RecordRow, now: number): StoredRecord {
  return {
    state: row.state,
    fingerprint: row.fingerprint,
    fingerprintVersion: row.fingerprintVersion,
    token: String(row.token),
    life: String(row.life),
    attempt: row.attempt,
    leaseLeftMs: row.leaseUntil === null ? null : (row.leaseUntil - now) / 1000,
    expiresInMs: (row.expiresAt - now) / 1000,
    forgetInMs: (row.forgetAt - now) / 1000,
    answerDay: dayOf(row.expiresAt),
  }
}

export function storedEventOf(row: SentEventRow): StoredEvent {
  const { shard, seq, id, aggregateType, aggregateId, type, payload, headers, createdAt } = row
  // The in-memory store never drops events, so one segment holds all of them.
  return { shard, seq, segment: 0, id, aggregateType, aggregateId, type, payload, headers, at: createdAt / 1000 }
}

/** Whether the record is in progress under this token. Every fenced statement checks this condition. */
export function isHeldBy({ token }: { readonly token: string }): (row: RecordRow) => boolean {
  return (row) => row.state === 'inProgress' && String(row.token) === token
}

export function claimedOf(row: RecordRow): Claimed {
  return { token: String(row.token), life: String(row.life), attempt: row.attempt, answerDay: dayOf(row.expiresAt) }
}

/** The key contains the token, because an answer belongs to the attempt that completed. */
export const answerKey = (id: string, token: number): string => `${id} ${token}`
export const relayKey = (destination: string, id: string): string => `${destination} ${id}`
export const shardKey = (destination: string, shard: number): string => `${destination} ${shard}`
export const ackKey = ({ destination, shard, cursor, token }: AckRow): string =>
  `${destination} ${shard} ${cursor} ${token}`
export const heldKey = (destination: string, shard: number, seq: number): string => `${destination} ${shard} ${seq}`
export const chunkKey = (id: string, life: number, start: number): string => `${id} ${life} ${start}`
export const stepKey = (id: string, life: number, name: string): string => `${id} ${life} ${name}`
