import type { Claimed, Held, LapsedOperation, LapsedParams, LeaseParams, SettleParams } from '../../store.ts'
import type { StoredRecord } from '../../../lifecycle/record.ts'
import type { Work } from '../database/connection.ts'
import type { MemoryDatabase } from '../database/database.ts'
import { claimedOf, isHeldBy, stepKey } from '../database/rows.ts'
import type { RecordRow } from '../database/rows.ts'
import { dropChunks } from './chunks.ts'
import { dropRecover, isOver, isSeen, newLife, nextToken, putRecover, timesOf } from './claim.ts'
import { completeRow } from './complete.ts'

const ATTEMPT_MAX = 32_000

/** Takes over a lapsed lease that is unchanged since it was read, or starts a new life of an expired record. */
export async function takeOver(
  work: Work,
  params: LeaseParams & { readonly seen: StoredRecord },
): Promise<Claimed | null> {
  const { database, tx } = work
  const { claim, seen, leaseMs, recover, about } = params
  const row = await database.records.lock(
    claim.id,
    tx,
    'update',
    (row) => isSeen(row, seen) && (isOver(row, database.now()) || isLapsed(row, database.now())),
  )
  if (row === undefined) return null
  const over = isOver(row, database.now())
  const next = over
    ? newLife(database, row, claim, { state: 'inProgress', leaseMs, recover, about })
    : nextAttempt(database, row, params)
  database.records.put(claim.id, next, tx)
  if (over) dropChunks(work, new Set([claim.id]))
  if (recover !== null) await putRecover(work, claim.id, recover)
  else if (over) await dropRecover(work, claim.id)
  return claimedOf(next)
}

function isLapsed({ state, leaseUntil, expiresAt }: RecordRow, now: number): boolean {
  return state === 'inProgress' && (leaseUntil ?? now) <= now && expiresAt > now
}

function nextAttempt(database: MemoryDatabase, row: RecordRow, { claim, leaseMs, about }: LeaseParams): RecordRow {
  const { fingerprint, fingerprintVersion } = claim
  const attempt = Math.min(row.attempt + 1, ATTEMPT_MAX)
  const leaseUntil = database.now() + leaseMs * 1000
  return { ...row, fingerprint, fingerprintVersion, token: nextToken(database, row.token), attempt, leaseUntil, about }
}

/**
 * Renews the leases. A locked row is being completed or taken over, so it is skipped. It still counts as held if its
 * committed row says so.
 */
export function heartbeat({ database, tx }: Work, leases: readonly Held[], leaseMs: number): string[] {
  const ours: string[] = []
  for (const { id, token } of leases) {
    const row = database.records.seen(id, tx)
    if (row === undefined || row.state !== 'inProgress' || String(row.token) !== token) continue
    ours.push(id)
    if (database.records.locked(id, tx, 'update')) continue
    database.records.put(id, { ...row, leaseUntil: database.now() + leaseMs * 1000 }, tx)
  }
  return ours
}

export async function release(work: Work, held: Held): Promise<boolean> {
  const row = await lockHeld(work, held)
  if (row === null) return false
  work.database.records.put(held.id, { ...row, leaseUntil: work.database.now() }, work.tx)
  return true
}

export async function suspend(work: Work, held: Held): Promise<boolean> {
  const row = await lockHeld(work, held)
  if (row === null) return false
  const now = work.database.now()
  // An unknown operation has no holder, so its lease ends now.
  const leaseUntil = Math.min(row.leaseUntil ?? now, now)
  work.database.records.put(held.id, { ...row, state: 'unknown', leaseUntil }, work.tx)
  return true
}

/**
 * Settles an unknown operation, or ends an abandoned one. The expiry is extended; otherwise the next caller would find
 * the record expired again.
 */
export async function settle(work: Work, { claim, verdict }: SettleParams): Promise<boolean> {
  const { database, tx } = work
  const row = await database.records.lock(claim.id, tx, 'update', (row) =>
    verdict.kind === 'failed' ? mayEnd(row, database.now()) : isUnknown(row, database.now()),
  )
  if (row === undefined) return false
  if (verdict.kind === 'failed') {
    await completeRow(work, row, claim, verdict.answer)
    dropChunks(work, new Set([claim.id]))
    return true
  }
  const key = stepKey(claim.id, row.life, verdict.step)
  await database.steps.lock(key, tx, 'update')
  if (verdict.kind === 'done') {
    const { step: name, result } = verdict
    database.steps.put(key, { id: claim.id, life: row.life, name, state: 'done', result }, tx)
  } else if (database.steps.seen(key, tx) !== undefined) database.steps.put(key, undefined, tx)
  const now = database.now()
  const times = timesOf(claim, now)
  const expiresAt = Math.max(row.expiresAt, times.expiresAt)
  const forgetAt = Math.max(row.forgetAt, times.forgetAt)
  // A higher token fences a holder that was suspended meanwhile.
  const token = nextToken(database, row.token)
  database.records.put(claim.id, { ...row, state: 'inProgress', token, leaseUntil: now, expiresAt, forgetAt }, tx)
  return true
}

/**
 * Whether the operation is unknown, or its lease lapsed after its expiry and the sweeper has not marked it yet. Neither
 * can be taken over.
 */
export function isUnknown(row: RecordRow, now: number): boolean {
  if (row.state === 'inProgress') return (row.leaseUntil ?? now) <= now && row.expiresAt <= now
  return row.state === 'unknown'
}

function mayEnd(row: RecordRow, now: number): boolean {
  return row.state === 'unknown' || (row.state === 'inProgress' && (row.leaseUntil ?? now) <= now)
}

export function lapsed({ database, tx }: Work, { limit, namespace, names }: LapsedParams): LapsedOperation[] {
  const now = database.now()
  const found: { until: number; operation: LapsedOperation }[] = []
  for (const [id, { state, leaseUntil, expiresAt }] of database.records.rows(tx)) {
    if (state !== 'inProgress' || leaseUntil === null || leaseUntil > now || expiresAt <= now) continue
    const sealed = database.recover.seen(id, tx)
    if (sealed?.namespace !== namespace || names?.includes(sealed.name) === false) continue
    found.push({ until: leaseUntil, operation: { id, name: sealed.name, input: sealed.input } })
  }
  found.sort((a, b) => a.until - b.until)
  return found.slice(0, limit).map(({ operation }) => operation)
}

export function unknown({ database, tx }: Work, limit: number): { id: string; sinceMs: number }[] {
  const now = database.now()
  const found: { id: string; sinceMs: number }[] = []
  for (const [id, row] of database.records.rows(tx)) {
    if (isUnknown(row, now)) found.push({ id, sinceMs: (now - (row.leaseUntil ?? now)) / 1000 })
  }
  return found.sort((a, b) => b.sinceMs - a.sinceMs).slice(0, limit)
}

async function lockHeld({ database, tx }: Work, held: Held): Promise<RecordRow | null> {
  return (await database.records.lock(held.id, tx, 'update', isHeldBy(held))) ?? null
}
