import { ERASED_FINGERPRINT, isErased } from '../../../lifecycle/record.ts'
import {
  aggregateTypeOf,
  erasedHeaders,
  isErasedEvent,
  type ErasedEvents,
  type ErasedLetters,
  type ErasedOperations,
  type EraseEventsParams,
  type EraseLettersParams,
  type EraseOperationsParams,
  type PendingEvent,
} from '../../erasure.ts'
import { partsOf } from '../../namespaced/names.ts'
import type { Work } from '../database/connection.ts'
import type { LetterRow } from '../database/inbox-rows.ts'
import type { HeldRow, RecordRow, SentEventRow } from '../database/rows.ts'
import { dropChunks } from './chunks.ts'
import { isOpen, rowsOf } from './letters.ts'
import { cursors } from './relay.ts'

/** Replaces completed records of the scope by tombstones. It skips locked records. */
export function eraseRecords(work: Work, params: EraseOperationsParams): ErasedOperations {
  const { database, tx } = work
  const { scope, id, after, limit, dryRun } = params
  const records = database.records.rows(tx).sort(([a], [b]) => (a < b ? -1 : 1))
  const found = records
    .filter(
      ([key, row]) => key > (after ?? '') && row.scope === scope && (id ?? key) === key && row.state === 'completed',
    )
    .slice(0, limit)
  const busy = found.filter(([key]) => database.records.locked(key, tx, 'update')).map(([key]) => key)
  const free = found.filter(([key]) => !busy.includes(key))
  const fresh = free.filter(([, row]) => !isErased(row))
  if (!dryRun) {
    for (const [key, row] of fresh) database.records.put(key, tombstoneOf(row), tx)
    const ids = new Set(fresh.map(([key]) => key))
    for (const table of [database.answers, database.steps]) {
      for (const [key, row] of table.rows(tx)) if (ids.has(row.id)) table.put(key, undefined, tx)
    }
    dropChunks(work, ids)
    for (const key of ids) if (database.recover.seen(key, tx)) database.recover.put(key, undefined, tx)
  }
  const next = found.length === limit ? (found.at(-1)?.[0] ?? null) : null
  return { erased: fresh.length, ids: free.map(([key]) => key), busy, next }
}

/** It expires together with its tombstone, so `expired: 'rerun'` does not renew it earlier. */
function tombstoneOf(row: RecordRow): RecordRow {
  const about = row.about && { ...row.about, label: null }
  return { ...row, ...ERASED_FINGERPRINT, expiresAt: row.forgetAt, about }
}

/** Removes the data of events that all destinations of the shard have passed and none holds. */
export function eraseEvents(work: Work, params: EraseEventsParams): ErasedEvents {
  const { database, tx } = work
  const { shard, aggregates, after, limit, dryRun } = params
  const destinations = database.shards.rows(tx).filter(([, row]) => row.shard === shard)
  const passed = destinations.map(([, { destination }]) => cursors(work, destination, [shard]).get(shard)?.cursor ?? 0)
  const cursor = passed.length === 0 ? 0 : Math.min(...passed)
  const held = new Map<number, [key: string, row: HeldRow][]>()
  for (const of of database.held.rows(tx)) {
    if (of[1].shard === shard) held.set(of[1].seq, [...(held.get(of[1].seq) ?? []), of])
  }
  const read = database.events.after(shard, after, limit)
  let erased = 0
  const pending: PendingEvent[] = []
  for (const event of read) {
    if (isErasedEvent(event) || !aggregates.some((of) => isOf(event, of))) continue
    const rows = held.get(event.seq) ?? []
    const state = rows.find(([, row]) => row.state !== 'skipped')?.[1].state ?? (event.seq > cursor ? 'unsent' : null)
    if (state !== null && state !== 'skipped') {
      pending.push({ id: event.id, type: event.type, aggregate: event.aggregateId, state })
      continue
    }
    erased += 1
    if (dryRun) continue
    database.events.replace({ ...event, payload: 'null', headers: erasedHeaders(event.headers) })
    for (const [key] of rows) database.held.put(key, undefined, tx)
  }
  return { erased, pending, next: read.length === limit ? (read.at(-1)?.seq ?? null) : null }
}

function isOf(event: SentEventRow, { type, id }: { readonly type: string; readonly id: string }): boolean {
  return event.aggregateType === type && event.aggregateId === id
}

export function eraseLetters(work: Work, params: EraseLettersParams): ErasedLetters {
  const { database, tx } = work
  const { namespace, tenant, aggregates, after, limit, dryRun } = params
  const isMeant = ({ consumer, type, aggregate, ...row }: LetterRow): boolean =>
    partsOf(consumer).no === namespace &&
    ((tenant !== null && row.tenant === tenant) ||
      aggregates.some((of) => of.id === aggregate && of.type === aggregateTypeOf(type)))
  const active = new Set(database.activeRedrives.rows(tx).map(([, { redrive }]) => redrive))
  const items = database.redriveItems.rows(tx)
  const redriving = new Map(
    items.flatMap(([, { redrive, letter }]) => (active.has(redrive) ? [[letter, redrive]] : [])),
  )
  const read = rowsOf(work)
    .filter(({ seq }) => seq > after)
    .slice(0, limit)
  const found = read.filter(isMeant)
  const free = found.filter(({ id }) => !redriving.has(id) && !database.letters.locked(id, tx, 'update'))
  for (const row of dryRun ? [] : free) {
    database.letters.put(row.id, emptied(row, Math.floor(database.now() / 1000)), tx)
    for (const [key, item] of items) {
      if (item.letter === row.id && item.body !== null) database.redriveItems.put(key, { ...item, body: null }, tx)
    }
  }
  return {
    erased: free.length,
    discarded: free.filter(isOpen).length,
    redriving: found.flatMap(({ id }) =>
      free.some((row) => row.id === id) ? [] : { id, redrive: redriving.get(id) ?? null },
    ),
    next: read.length === limit ? (read.at(-1)?.seq ?? null) : null,
  }
}

function emptied(row: LetterRow, now: number): LetterRow {
  return {
    ...row,
    state: isOpen(row) ? 'discarded' : row.state,
    settledAt: row.settledAt ?? now,
    aggregate: null,
    tenant: null,
    error: null,
    causes: '[]',
    timeline: '[]',
    body: '',
    shown: null,
    headers: '{}',
    traceparent: null,
  }
}
