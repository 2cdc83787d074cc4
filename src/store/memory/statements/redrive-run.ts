import type {
  AuditEntry,
  AuditParams,
  BeatRedriveParams,
  ImportedLetter,
  RedriveBeat,
  RedriveDecision,
  RedriveHeld,
  RedriveLease,
} from '../../redrives.ts'
import type { Work } from '../database/connection.ts'
import type { LetterRow } from '../database/inbox-rows.ts'
import { redriveKey } from '../database/redrive-rows.ts'
import type { RedriveItemRow } from '../database/redrive-rows.ts'
import { isApplied } from './applied.ts'
import { isOpen } from './letters.ts'
import { changeItem, itemsOf, sameAggregate } from './redrive.ts'

/**
 * The statements of a process that runs a redrive. The token is the fence: a process that takes over draws a higher
 * one.
 */

const SEEN_MICROS = 10_000_000
const TIMELINE_MAX = 50

/** Records from time to time that the consumer is alive. */
export async function consumerSeen({ database, tx }: Work, consumer: string): Promise<void> {
  const stale = database.now() - SEEN_MICROS
  const row = await database.consumers.lock(consumer, tx, 'update', ({ seenAt }) => seenAt < stale)
  if (row !== undefined) database.consumers.put(consumer, { ...row, seenAt: database.now() }, tx)
}

/**
 * Leases a running redrive that no process holds. It skips a redrive whose holder is about to commit and therefore
 * shares the fence.
 */
export function claimRedrive(work: Work, consumer: string, leaseMs: number): RedriveLease | null {
  const { database, tx } = work
  const now = database.now()
  for (const [key, row] of database.redrives.rows(tx)) {
    if (row.consumer !== consumer || row.state !== 'running' || (row.leaseUntil !== null && row.leaseUntil >= now))
      continue
    if (database.redrives.locked(key, tx, 'update') || database.redriveFences.locked(key, tx, 'update')) continue
    const token = row.token + 1
    database.redrives.put(key, { ...row, token, leaseUntil: now + leaseMs * 1000 }, tx)
    database.redriveFences.put(key, { token }, tx)
    return { redrive: row.id, token: String(token), consumer, rate: row.rate, pauseAt: row.pauseAt }
  }
  return null
}

export async function beatRedrive(work: Work, params: BeatRedriveParams): Promise<RedriveBeat | null> {
  const { database, tx } = work
  const { redrive, token, leaseMs, starting, ended } = params
  const key = redriveKey(redrive)
  const row = await database.redrives.lock(key, tx, 'update', (of) => String(of.token) === token)
  if (row === undefined) return null
  database.redrives.put(key, { ...row, leaseUntil: database.now() + leaseMs * 1000 }, tx)
  const decided = itemsOf(work, redrive).filter((item) => row.canary > 0 && item.round === row.round)
  for (const { ord, starts } of itemsOf(work, redrive)) {
    if (starting.includes(ord)) await changeItem(work, redrive, ord, () => true, { starts: starts + 1 })
    else if (ended.includes(ord)) await changeItem(work, redrive, ord, () => true, { starts: 0 })
  }
  const { state, round, rate, canary, canaryStops } = row
  const canaryFailed = decided.filter((item) => item.state === 'failed').length
  const canaryDecided = decided.filter((item) => item.state === 'applied' || item.state === 'already').length
  return { state, round, rate, canary, canaryStops, canaryDecided: canaryDecided + canaryFailed, canaryFailed }
}

/** Runs in the effect's transaction, and blocks a takeover until the commit. */
export async function settleRedrive(
  work: Work,
  { redrive, token, ords }: RedriveHeld & { readonly ords: readonly number[] },
): Promise<boolean> {
  const round = await heldRound(work, redrive, token)
  if (round === null) return false
  let settled = 0
  for (const item of pendingOf(work, redrive)) {
    if (!ords.includes(item.ord) || !(await settleLetter(work, item))) continue
    if (await changeItem(work, redrive, item.ord, isPending, { state: 'applied', starts: 0, round })) settled += 1
  }
  return settled === ords.length
}

export async function decideRedrive(
  work: Work,
  { redrive, token, decisions }: RedriveHeld & { readonly decisions: readonly RedriveDecision[] },
): Promise<boolean> {
  const { database, tx } = work
  const round = await heldRound(work, redrive, token)
  if (round === null) return false
  const pending = pendingOf(work, redrive)
  const decided = new Set(decisions.map(({ ord }) => ord))
  for (const decision of decisions) {
    const { ord, outcome } = decision
    const item = pending.find((of) => of.ord === ord)
    if (item === undefined) continue
    const letter = database.letters.seen(item.letter, tx)
    if (outcome === 'already') await settleLetter(work, item)
    if (outcome === 'failed') await failLetter(work, item, decision)
    if ((outcome === 'failed' || outcome === 'blocked') && letter?.state === 'parked') {
      for (const other of pending.filter((of) => !decided.has(of.ord))) {
        const behind = database.letters.seen(other.letter, tx)
        if (behind === undefined || !sameAggregate(letter, behind) || behind.seq <= letter.seq) continue
        await changeItem(work, redrive, other.ord, isPending, { state: 'blocked', starts: 0, round })
      }
    }
    await changeItem(work, redrive, ord, isPending, { state: outcome, starts: 0, round })
  }
  return true
}

export async function releaseRedrive({ database, tx }: Work, { redrive, token }: RedriveHeld): Promise<void> {
  const key = redriveKey(redrive)
  const row = await database.redrives.lock(key, tx, 'update', (of) => String(of.token) === token)
  if (row !== undefined) database.redrives.put(key, { ...row, leaseUntil: null }, tx)
}

/** Newest first. */
export function readAudit({ database, tx }: Work, { redrive, limit, namespace }: AuditParams): AuditEntry[] {
  return database.audits
    .rows(tx)
    .map(([, row]) => row)
    .filter((row) => redrive === undefined || row.redrive === redrive)
    .filter((row) => namespace === undefined || row.namespace === namespace)
    .sort((a, b) => b.seq - a.seq)
    .slice(0, limit)
    .map(({ namespace: _, ...entry }) => entry)
}

/** Writes letters whose messages are already locked. */
export async function importLetters(
  work: Work,
  letters: readonly ImportedLetter[],
): Promise<{ imported: number; applied: number }> {
  const { database, tx } = work
  const counts = { imported: 0, applied: 0 }
  for (const letter of letters) {
    const { lock: _, ...of } = letter
    const row: LetterRow = { ...of, seq: database.next(), settledAt: null }
    if (isApplied(work, letter.id)) counts.applied += 1
    else if (await database.letters.insert(letter.id, row, tx)) counts.imported += 1
  }
  return counts
}

/** Deletes redrives that ended long ago, with their items. */
export async function sweepRedrives({ database, tx }: Work, keepForMs: number): Promise<number> {
  const before = database.now() - keepForMs * 1000
  let swept = 0
  for (const [key, { id, endedAt }] of database.redrives.rows(tx)) {
    if (endedAt === null || endedAt >= before || !(await database.redrives.lock(key, tx, 'update'))) continue
    database.redrives.put(key, undefined, tx)
    swept += 1
    for (const [item, { redrive }] of database.redriveItems.rows(tx)) {
      if (redrive === id && (await database.redriveItems.lock(item, tx, 'update')))
        database.redriveItems.put(item, undefined, tx)
    }
  }
  return swept
}

/** Locks the fence in share mode until the transaction ends. Returns null when another process has taken over. */
async function heldRound({ database, tx }: Work, redrive: number, token: string): Promise<number | null> {
  const key = redriveKey(redrive)
  const fence = await database.redriveFences.lock(key, tx, 'share', (of) => String(of.token) === token)
  return fence === undefined ? null : (database.redrives.seen(key, tx)?.round ?? null)
}

async function settleLetter({ database, tx }: Work, { letter }: RedriveItemRow): Promise<boolean> {
  const row = await database.letters.lock(letter, tx, 'update', isOpen)
  if (row === undefined) return false
  database.letters.put(letter, { ...row, state: 'redriven', settledAt: Math.floor(database.now() / 1000) }, tx)
  return true
}

async function failLetter(
  { database, tx }: Work,
  { letter }: RedriveItemRow,
  { error, reason, fingerprint, causes }: Extract<RedriveDecision, { readonly error: string }>,
): Promise<void> {
  const row = await database.letters.lock(letter, tx, 'update', isOpen)
  if (row === undefined) return
  const known = JSON.parse(row.timeline) as object[]
  const at = Math.floor(database.now() / 1000)
  const kept = known.length >= TIMELINE_MAX ? known.toSpliced(1, 1) : known
  const timeline = JSON.stringify([...kept, { at, error, fingerprint }])
  const attempts = row.attempts + 1
  database.letters.put(letter, { ...row, attempts, error, reason, fingerprint, causes, timeline }, tx)
}

function pendingOf(work: Work, redrive: number): RedriveItemRow[] {
  return itemsOf(work, redrive).filter(isPending)
}

function isPending({ state }: RedriveItemRow): boolean {
  return state === 'pending'
}
