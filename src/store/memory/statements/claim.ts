import type { ClaimView, StoredRecord } from '../../../lifecycle/record.ts'
import type { Claim, Claimed, LeaseParams, Reading } from '../../store.ts'
import type { Work } from '../database/connection.ts'
import type { MemoryDatabase } from '../database/database.ts'
import { answerKey, claimedOf, storedRecordOf } from '../database/rows.ts'
import type { RecordRow } from '../database/rows.ts'
import { dropChunks } from './chunks.ts'

export interface ClaimOutcome {
  readonly view: ClaimView
  readonly claimed: Claimed | null
}

/**
 * The initial state of the record. An atomic record starts as completed, because no other transaction sees it before
 * the commit. A leased record starts in progress.
 */
export interface Birth {
  readonly state: 'completed' | 'inProgress'
  readonly leaseMs: number | null
  readonly recover: LeaseParams['recover']
  readonly about?: LeaseParams['about']
}

export const BORN_COMPLETED: Birth = { state: 'completed', leaseMs: null, recover: null }

/**
 * The claim as a database function. It tries two locks: first fingerprint and identity together, then identity alone.
 * The unique index decides next. The record of a lost claim is read last, in a new snapshot, so the result is up to
 * date.
 */
export async function claim(work: Work, of: Claim, birth: Birth): Promise<ClaimOutcome> {
  const { database, tx } = work
  const { ok, won } = tryLocks(work, of)
  const claimed = won && ok ? await insertRecord(work, of, birth) : null
  if (claimed !== null) return { view: WON, claimed }
  const pause = work.pause('claim.read')
  if (pause !== undefined) await pause
  tx.check()
  const row = database.records.seen(of.id, tx)
  const record = row === undefined ? null : storedRecordOf(row, database.now())
  return { view: { inserted: false, sameRunning: !ok, otherRunning: ok && !won, record, reread: true }, claimed: null }
}

const WON: ClaimView = { inserted: true, sameRunning: false, otherRunning: false, record: null, reread: false }

/**
 * The claim as one plain statement. Its snapshot is taken at the start, before the locks are tried. So a claim can win
 * both locks, insert nothing, and see no record. Such a result must not refuse the request.
 */
export async function claimInOne(work: Work, of: Claim, birth: Birth): Promise<ClaimOutcome> {
  const { database, tx } = work
  const snapshot = database.records.seen(of.id, tx)
  const pause = work.pause('claim.locks')
  if (pause !== undefined) await pause
  tx.check()
  const { ok, won } = tryLocks(work, of)
  const claimed = won && ok ? await insertRecord(work, of, birth) : null
  if (claimed !== null) return { view: WON, claimed }
  const record = snapshot === undefined ? null : storedRecordOf(snapshot, database.now())
  return {
    view: { inserted: false, sameRunning: !ok, otherRunning: ok && !won, record, reread: false },
    claimed: null,
  }
}

function tryLocks({ tx }: Work, of: Claim): { ok: boolean; won: boolean } {
  const ok = tx.tryAdvisory(of.fingerprintLock)
  return { ok, won: ok && tx.tryAdvisory(of.lock) }
}

async function insertRecord(work: Work, of: Claim, birth: Birth): Promise<Claimed | null> {
  const row = freshRow(work.database, of, birth)
  if (!(await work.database.records.insert(of.id, row, work.tx))) return null
  if (birth.recover !== null) await putRecover(work, of.id, birth.recover)
  return claimedOf(row)
}

/** A separate statement, because it needs a new snapshot. */
export function reread({ database, tx }: Work, id: string): StoredRecord | null {
  const row = database.records.seen(id, tx)
  return row === undefined ? null : storedRecordOf(row, database.now())
}

/** The answer of the attempt that completed, or null if the answer was dropped. */
export function readAnswer({ database, tx }: Work, id: string, token: string): Reading['answer'] {
  const row = database.answers.seen(answerKey(id, Number(token)), tx)
  return row === undefined ? null : { status: row.status, headers: row.headers, body: row.body, kept: row.kept }
}

/**
 * Starts a new life of an expired record, or of a leased record that lapsed before its first step. The record must be
 * unchanged since it was read.
 */
export async function renew(work: Work, of: Claim, seen: StoredRecord): Promise<Claimed | null> {
  const { database, tx } = work
  const row = await database.records.lock(
    of.id,
    tx,
    'update',
    (row) => isSeen(row, seen) && (isOver(row, database.now()) || isUntouched(database, row, tx)),
  )
  if (row === undefined) return null
  const next = newLife(database, row, of, BORN_COMPLETED)
  database.records.put(of.id, next, tx)
  dropChunks(work, new Set([of.id]))
  await dropRecover(work, of.id)
  return claimedOf(next)
}

/** The state is compared as well, because completing a record does not change its token. */
export function isSeen(row: RecordRow, seen: StoredRecord): boolean {
  return String(row.token) === seen.token && row.state === seen.state
}

export function isOver(row: RecordRow, now: number): boolean {
  return row.state === 'completed' && row.expiresAt <= now
}

function isUntouched(database: MemoryDatabase, row: RecordRow, tx: Work['tx']): boolean {
  const now = database.now()
  if (row.state !== 'inProgress' || row.leaseUntil === null || row.leaseUntil > now || row.expiresAt <= now)
    return false
  return ![...database.steps.rows(tx), ...database.chunks.rows(tx)].some(([, part]) => part.id === row.id)
}

export function newLife(database: MemoryDatabase, row: RecordRow, of: Claim, birth: Birth): RecordRow {
  const token = nextToken(database, row.token)
  return { ...freshRow(database, of, birth), token, life: token }
}

/**
 * A token never repeats and never decreases, even after the record was swept: the clock has passed the old token by
 * then.
 */
export function nextToken(database: MemoryDatabase, previous: number): number {
  return Math.max(previous + 1, database.now())
}

export function freshRow(database: MemoryDatabase, of: Claim, birth: Birth): RecordRow {
  const now = database.now()
  return {
    id: of.id,
    scope: of.scope,
    fingerprint: of.fingerprint,
    fingerprintVersion: of.fingerprintVersion,
    state: birth.state,
    token: now,
    life: now,
    attempt: 1,
    leaseUntil: birth.leaseMs === null ? null : now + birth.leaseMs * 1000,
    ...timesOf(of, now),
    about: birth.about,
  }
}

export function timesOf(of: Claim, now: number): { expiresAt: number; forgetAt: number } {
  return { expiresAt: now + of.replayForMs * 1000, forgetAt: now + (of.replayForMs + of.goneForMs) * 1000 }
}

export async function putRecover(
  { database, tx }: Work,
  id: string,
  row: NonNullable<Birth['recover']>,
): Promise<void> {
  if (await database.recover.insert(id, row, tx)) return
  await database.recover.lock(id, tx, 'update')
  database.recover.put(id, row, tx)
}

export async function dropRecover({ database, tx }: Work, id: string): Promise<void> {
  if ((await database.recover.lock(id, tx, 'update')) !== undefined) database.recover.put(id, undefined, tx)
}
