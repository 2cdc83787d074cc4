import { onceError } from '../../../errors.ts'
import type { Claim, Claimed, Row, UserStatement } from '../../store.ts'
import type { Work } from '../database/connection.ts'
import { insertRow, updateRows } from '../database/memory-tx.ts'
import { claimedOf } from '../database/rows.ts'
import { BORN_COMPLETED, freshRow, newLife } from './claim.ts'

/**
 * Claims every key of a batch in sorted order. Each claim uses try-locks, so no transaction waits for another. An
 * expired record starts a new life. A record that has not expired is locked too, as `on conflict do update` does.
 */
export async function claimBatch(
  { database, tx }: Work,
  claims: readonly Claim[],
  rerun: boolean,
): Promise<Map<string, Claimed>> {
  const winners = new Map<string, Claimed>()
  for (const of of claims) {
    if (!tx.tryAdvisory(of.fingerprintLock) || !tx.tryAdvisory(of.lock)) continue
    const row = freshRow(database, of, BORN_COMPLETED)
    if (await database.records.insert(of.id, row, tx)) {
      winners.set(of.id, claimedOf(row))
      continue
    }
    const known = await database.records.lock(of.id, tx, 'update')
    if (known?.state !== 'completed' || (rerun ? known.expiresAt : known.forgetAt) > database.now()) continue
    const next = newLife(database, known, of, BORN_COMPLETED)
    database.records.put(of.id, next, tx)
    winners.set(of.id, claimedOf(next))
  }
  return winners
}

/**
 * Runs the statement of a batched request. The in-memory store has no SQL, only two forms: `insert into <table>` with
 * the row as its value, and `update <table>` with the columns to match and the columns to set.
 */
export async function userStatement(work: Work, { sql, values }: UserStatement): Promise<readonly Row[]> {
  const [, verb, table = ''] = /^(insert into|update) (\w+)$/.exec(sql) ?? []
  const [first, second] = values as readonly [Row?, Row?]
  if (verb === 'insert into' && first !== undefined) return [await insertRow(work, table, first)]
  if (verb === 'update' && first !== undefined && second !== undefined) return updateRows(work, table, first, second)
  const detail = 'The in-memory store knows "insert into <table>" with [row] and "update <table>" with [where, patch]'
  throw onceError('ONCE_UNSUPPORTED', { detail })
}
