import type { Work } from '../database/connection.ts'
import { dayOf } from '../database/rows.ts'
import { dropChunks } from './chunks.ts'

/** Deletes completed records, with their dependent rows, after `goneFor`. It skips locked records. */
export function sweepRecords(work: Work, limit: number): number {
  const { database, tx } = work
  const now = database.now()
  const gone = new Set<string>()
  for (const [id, row] of database.records.rows(tx)) {
    if (gone.size >= limit) break
    if (row.state !== 'completed' || row.forgetAt > now || database.records.locked(id, tx, 'update')) continue
    database.records.put(id, undefined, tx)
    for (const [key, step] of database.steps.rows(tx)) {
      if (step.id === id) database.steps.put(key, undefined, tx)
    }
    if (database.recover.seen(id, tx) !== undefined) database.recover.put(id, undefined, tx)
    gone.add(id)
  }
  dropChunks(work, gone)
  return gone.size
}

/**
 * Marks operations as unknown whose lease lapsed after their expiry. No process may take them over, so an operator must
 * decide.
 */
export function suspendLapsed({ database, tx }: Work, limit: number): number {
  const now = database.now()
  let suspended = 0
  for (const [id, row] of database.records.rows(tx)) {
    if (suspended >= limit) return suspended
    if (row.state !== 'inProgress' || row.expiresAt > now || (row.leaseUntil ?? now) > now) continue
    if (database.records.locked(id, tx, 'update')) continue
    database.records.put(id, { ...row, state: 'unknown' }, tx)
    suspended += 1
  }
  return suspended
}

/**
 * Drops the answers of past days by the database's calendar. Each day is dropped as a whole, or kept for a later sweep.
 */
export function dropAnswers({ database, tx }: Work): { partitionsDropped: number; partitionsBusy: number } {
  const today = dayOf(database.now())
  const days = new Map<string, string[]>()
  for (const [key, { day }] of database.answers.rows(tx)) {
    if (day < today) days.set(day, [...(days.get(day) ?? []), key])
  }
  let partitionsDropped = 0
  for (const keys of days.values()) {
    if (keys.some((key) => database.answers.locked(key, tx, 'update'))) continue
    for (const key of keys) database.answers.put(key, undefined, tx)
    partitionsDropped += 1
  }
  return { partitionsDropped, partitionsBusy: days.size - partitionsDropped }
}
