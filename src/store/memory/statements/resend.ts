import { isErasedEvent } from '../../erasure.ts'
import type { ResendParams } from '../../outbox.ts'
import type { Work } from '../database/connection.ts'
import { heldKey } from '../database/rows.ts'
import type { HeldRow, SentEventRow } from '../database/rows.ts'
import { notBeforeOf } from './delayed.ts'
import { cursors } from './relay.ts'

/**
 * Holds events of one shard that the destination has already received, so that the relay sends them again. A delayed
 * event waits for its time. The first other event of each aggregate is due now, and the rest wait behind it. Events
 * that are already held stay unchanged, except skipped ones.
 */
export async function resend(work: Work, params: ResendParams, shard: number, number: number): Promise<number> {
  const { database, tx } = work
  const { destination } = params
  const cursor = cursors(work, destination, [shard]).get(shard)?.cursor ?? 0
  const now = database.now()
  const begun = new Set<string>()
  let events = 0
  for (const event of database.events.after(shard, 0, Number.POSITIVE_INFINITY)) {
    if (event.seq > cursor || isErasedEvent(event) || !isMeant(event, params)) continue
    const key = heldKey(destination, shard, event.seq)
    const known = database.held.seen(key, tx)
    if (known !== undefined && known.state !== 'skipped') continue
    if (database.delayed.seen(event.id, tx)?.state === 'cancelled') continue
    const later = notBeforeOf(event)
    const isDelayed = later !== undefined && later > now
    const dueAt = isDelayed ? later : begun.has(event.aggregateId) ? null : now
    if (!isDelayed) begun.add(event.aggregateId)
    const state = isDelayed ? 'delayed' : 'waiting'
    const row: HeldRow = { ...placed(event, destination), state, resend: number, dueAt, heldAt: now }
    if (await setAside(work, key, row)) events += 1
  }
  return events
}

async function setAside({ database, tx }: Work, key: string, row: HeldRow): Promise<boolean> {
  if (await database.held.insert(key, row, tx)) return true
  const skipped = await database.held.lock(key, tx, 'update', ({ state }) => state === 'skipped')
  if (skipped === undefined) return false
  database.held.put(key, row, tx)
  return true
}

function isMeant({ createdAt, type, aggregateId }: SentEventRow, of: ResendParams): boolean {
  if (createdAt < Date.parse(of.since) * 1000) return false
  if (of.until !== null && createdAt >= Date.parse(of.until) * 1000) return false
  return (of.type === null || of.type === type) && (of.aggregateId === null || of.aggregateId === aggregateId)
}

function placed(
  { shard, seq, aggregateId }: SentEventRow,
  destination: string,
): Omit<HeldRow, 'state' | 'resend' | 'dueAt' | 'heldAt'> {
  return { destination, shard, seq, aggregateId, attempts: 0, tried: 0, reason: null }
}
