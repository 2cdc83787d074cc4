import type { ClaimView, StoredRecord } from '../../lifecycle/record.ts'
import { recordOf } from '../sql/record-rows.ts'
import type { Claim, Claimed, Row } from '../store.ts'
import { NOW } from './migrations.ts'
import type { Turn } from './turn.ts'

export const DAY = `strftime('%Y-%m-%d', expires_at / 1000, 'unixepoch')`
/** Always increases for a key, even after a sweep. It is sent as text, because it does not fit into a number. */
export const NEXT_TOKEN: string = `max(token + 1, ${NOW} * 1000)`
/** Two parameters: replayForMs, and replayForMs + goneForMs. */
export const NEW_TIMES: string = `expires_at = ${NOW} + ?, forget_at = ${NOW} + ?`
export const CLAIMED: string = `cast(token as text) as token, cast(life as text) as life, attempt, ${DAY} as day`

export const RECORD: string = `r.state, r.fp, r.fp_version, cast(r.token as text) as token, cast(r.life as text) as life,
  r.attempt, iif(r.state = 1, r.lease_until - ${NOW}, null) as lease_left_ms, r.expires_at - ${NOW} as expires_in_ms,
  r.forget_at - ${NOW} as forget_in_ms, strftime('%Y-%m-%d', r.expires_at / 1000, 'unixepoch') as day`

// With one writer, the row exists or it does not. It is inserted as completed (2), because no other transaction sees it
// before its commit.
const INSERT = `insert into effectively_once_record
  (id, scope, fp, fp_version, state, token, life, attempt, lease_until, expires_at, forget_at)
  values (?, ?, ?, ?, ?, ${NOW} * 1000, ${NOW} * 1000, 1, ${NOW} + ?, ${NOW} + ?, ${NOW} + ?)
  on conflict (id) do nothing returning ${CLAIMED}`

const SELECT = `select ${RECORD} from effectively_once_record r where r.id = ?`

// The record is expired. Or a leased attempt left it before its first step, and this claim is atomic.
const RENEW = `update effectively_once_record as r set fp = ?, fp_version = ?, state = ?, token = ${NEXT_TOKEN},
  life = ${NEXT_TOKEN}, attempt = 1, lease_until = ${NOW} + ?, ${NEW_TIMES},
  namespace = null, route = null, label = null
  where id = ? and token = cast(? as integer) and (state = 2 and expires_at <= ${NOW}
    or state = 1 and lease_until <= ${NOW} and expires_at > ${NOW}
      and not exists (select 1 from effectively_once_step s where s.id = r.id)
      and not exists (select 1 from effectively_once_chunk c where c.id = r.id))
  returning ${CLAIMED}`

/** `leaseMs` null: the claim belongs to the transaction of its effect. */
function insertRecord(turn: Turn, claim: Claim, leaseMs: number | null): Claimed | null {
  const { id, scope, fingerprint, fingerprintVersion } = claim
  const state = leaseMs === null ? 2 : 1
  return claimedOf(turn.all(INSERT, [id, scope, fingerprint, fingerprintVersion, state, leaseMs, ...timesOf(claim)]))
}

/**
 * The result of a claim. Under the writer's lock no other transaction can change the record, so it is not read again.
 */
export function claimRecord(
  turn: Turn,
  claim: Claim,
  leaseMs: number | null,
): { view: ClaimView; claimed: Claimed | null } {
  const claimed = insertRecord(turn, claim, leaseMs)
  const record = claimed ? null : selectRecord(turn, claim.id)
  return {
    view: { inserted: claimed !== null, sameRunning: false, otherRunning: false, record, reread: true },
    claimed,
  }
}

/**
 * The same, but a forgotten record that was not swept yet starts a new life. With `rerun`, an expired record does, too.
 */
export function claimOver(turn: Turn, claim: Claim, rerun: boolean): ReturnType<typeof claimRecord> {
  const first = claimRecord(turn, claim, null)
  const { record } = first.view
  if (record?.state !== 'completed' || (rerun ? record.expiresInMs : record.forgetInMs) > 0) return first
  const claimed = renewRecord(turn, claim, record, null)
  return claimed ? { view: { ...first.view, inserted: true, record: null }, claimed } : first
}

export function selectRecord(turn: Turn, id: string): StoredRecord | null {
  return recordOf(turn.all(SELECT, [id])[0])
}

/** Starts a new life of the record. Nothing of the old life stays. */
export function renewRecord(turn: Turn, claim: Claim, seen: StoredRecord, leaseMs: number | null): Claimed | null {
  const { id, fingerprint, fingerprintVersion } = claim
  const state = leaseMs === null ? 2 : 1
  const values = [fingerprint, fingerprintVersion, state, leaseMs, ...timesOf(claim), id, seen.token]
  const claimed = claimedOf(turn.all(RENEW, values))
  if (claimed)
    for (const table of ['answer', 'step', 'recover', 'chunk'])
      turn.run(`delete from effectively_once_${table} where id = ?`, [id])
  return claimed
}

/** The parameters of NEW_TIMES. */
export function timesOf(claim: Claim): [number, number] {
  return [claim.replayForMs, claim.replayForMs + claim.goneForMs]
}

export function claimedOf(rows: readonly Row[]): Claimed | null {
  const [row] = rows
  if (!row) return null
  return {
    token: String(row['token']),
    life: String(row['life']),
    attempt: Number(row['attempt']),
    answerDay: String(row['day']),
  }
}
