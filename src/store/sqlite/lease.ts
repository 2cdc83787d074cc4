import type { StoredRecord } from '../../lifecycle/record.ts'
import type { Claim, Claimed, Held, LapsedOperation, LeaseParams, Row, SettleParams } from '../store.ts'
import { insertAnswer } from './answer.ts'
import { NOW } from './migrations.ts'
import { CLAIMED, claimedOf, claimRecord, DAY, NEW_TIMES, NEXT_TOKEN, renewRecord, timesOf } from './record.ts'
import type { Turn } from './turn.ts'

/** Lapsed and expired: no attempt may take it over any more, even if the sweeper has not marked it yet. */
const OVERDUE = `state = 1 and lease_until <= ${NOW} and expires_at <= ${NOW}`

const TAKE_OVER = `update effectively_once_record set fp = ?, fp_version = ?, token = ${NEXT_TOKEN}, attempt = attempt + 1, lease_until = ${NOW} + ?
  where id = ? and token = cast(? as integer) and state = 1 and lease_until <= ${NOW} and expires_at > ${NOW}
  returning ${CLAIMED}`

const SAVE_NOTES = `update effectively_once_record set namespace = ?, route = ?, label = ? where id = ?`

const SAVE_INPUT = `insert or replace into effectively_once_recover (id, namespace, name, input) values (?, ?, ?, ?)`

/** The end of the lease. For an unknown operation: since when no attempt holds it. */
const SET_LEASE = `update effectively_once_record set lease_until = ${NOW} + ?
  where id = ? and token = cast(? as integer) and state = 1`

const SUSPEND = `update effectively_once_record set state = 3, lease_until = ${NOW}
  where id = ? and token = cast(? as integer) and state = 1`

const SUSPEND_OVERDUE = `update effectively_once_record set state = 3 where id in
  (select id from effectively_once_record where state <> 2 and ${OVERDUE} limit ?)`

// The new token fences the attempt that left the operation unknown.
const settleSql = (state: 1 | 2, times: string, overdue: string): string =>
  `update effectively_once_record set state = ${state}, token = ${NEXT_TOKEN}, lease_until = ${NOW}, ${times}
  where id = ? and (state = 3 or ${overdue}) returning cast(life as text) as life, ${DAY} as day`
// An abandoned operation may be ended, too.
const FAIL = settleSql(2, NEW_TIMES, `state = 1 and lease_until <= ${NOW}`)
const GO_ON = settleSql(1, `expires_at = max(expires_at, ${NOW} + ?), forget_at = max(forget_at, ${NOW} + ?)`, OVERDUE)

const EVICT = `update effectively_once_record as r set state = 1, token = ${NEXT_TOKEN}, lease_until = ${NOW},
  expires_at = max(expires_at, ${NOW} + ?), forget_at = max(forget_at, ${NOW} + ?)
  where id = ? and state <> 2
    and not exists (select 1 from effectively_once_step s where s.id = r.id and s.life = r.life and s.state = 1)`

const STEP_DONE = `insert or replace into effectively_once_step (id, life, name, state, result)
  values (?, cast(? as integer), ?, 2, ?)`
const STEP_AGAIN = `delete from effectively_once_step where id = ? and life = cast(? as integer) and name = ?`

export const READ_LAPSED: string = `select r.id, s.name, s.input
  from effectively_once_record r join effectively_once_recover s on s.id = r.id
  where r.state <> 2 and r.state = 1 and r.lease_until <= ${NOW} and r.expires_at > ${NOW} and s.namespace = ?1
    and (?2 is null or s.name in (select value from json_each(?2)))
  order by r.lease_until limit ?3`

export const READ_UNKNOWN: string = `select id, ${NOW} - lease_until as since from effectively_once_record
  where state <> 2 and (state = 3 or (${OVERDUE})) order by lease_until limit ?`

export function claimLease(turn: Turn, params: LeaseParams): ReturnType<typeof claimRecord> {
  const result = claimRecord(turn, params.claim, params.leaseMs)
  if (result.claimed) saveNotes(turn, params)
  return result
}

/** Begins the next attempt of a lapsed operation, or the next life of an expired one. */
export function takeOver(turn: Turn, params: LeaseParams & { seen: StoredRecord }): Claimed | null {
  const { claim, leaseMs, seen } = params
  const claimed =
    seen.state === 'completed'
      ? renewRecord(turn, claim, seen, leaseMs)
      : claimedOf(turn.all(TAKE_OVER, [claim.fingerprint, claim.fingerprintVersion, leaseMs, claim.id, seen.token]))
  if (claimed) saveNotes(turn, params)
  return claimed
}

function saveNotes(turn: Turn, { claim, recover, about }: LeaseParams): void {
  if (about) turn.run(SAVE_NOTES, [about.namespace, about.route, about.label, claim.id])
  if (recover) turn.run(SAVE_INPUT, [claim.id, recover.namespace, recover.name, recover.input])
}

/**
 * Fences any holder. Refused while a call without a key is unfinished, because it is unknown whether the call must be
 * repeated.
 */
export function evict(turn: Turn, of: { readonly id: string } & Pick<Claim, 'replayForMs' | 'goneForMs'>): boolean {
  return turn.run(EVICT, [of.replayForMs, of.replayForMs + of.goneForMs, of.id]) === 1
}

/** `leaseMs` 0 ends the lease now. False: this attempt no longer holds it. */
export function setLease(turn: Turn, { id, token }: Held, leaseMs: number): boolean {
  return turn.run(SET_LEASE, [leaseMs, id, token]) === 1
}

export function suspend(turn: Turn, { id, token }: Held): boolean {
  return turn.run(SUSPEND, [id, token]) === 1
}

export function suspendOverdue(turn: Turn, limit: number): number {
  return turn.run(SUSPEND_OVERDUE, [limit])
}

export function settle(turn: Turn, { claim, verdict }: SettleParams): boolean {
  const [row] = turn.all(verdict.kind === 'failed' ? FAIL : GO_ON, [...timesOf(claim), claim.id])
  if (!row) return false
  const life = String(row['life'])
  switch (verdict.kind) {
    case 'done':
      turn.run(STEP_DONE, [claim.id, life, verdict.step, verdict.result])
      break
    case 'rerun':
      turn.run(STEP_AGAIN, [claim.id, life, verdict.step])
      break
    case 'failed':
      insertAnswer(turn, claim.id, String(row['day']), verdict.answer)
      for (const table of ['recover', 'chunk'])
        turn.run(`delete from effectively_once_${table} where id = ?`, [claim.id])
  }
  return true
}

export function lapsedOf(row: Row): LapsedOperation {
  return { id: String(row['id']), name: String(row['name']), input: String(row['input']) }
}
