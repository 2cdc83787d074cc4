import { invariant } from '../../invariant.ts'
import type { RecordState, StoredRecord } from '../../lifecycle/record.ts'
import type { Claimed, OperationState, StoredOperation } from '../store.ts'

const STATES: readonly (RecordState | undefined)[] = [undefined, 'inProgress', 'completed', 'unknown']

/** The number by which a record stores its state. */
export function stateNumber(state: RecordState): string {
  return String(STATES.indexOf(state))
}

/** The fields of a record as a script returns them: `s f v t l a u e g`. Null: there is no such field. */
export type Fields = readonly (string | null)[]

/** `now`: the server's time when the script ran. */
export function recordOf(now: unknown, fields: Fields): StoredRecord | null {
  const [stored, fingerprint, version, token, life, attempt, until, expires, forget] = fields
  if (stored === null || stored === undefined) return null
  const state = STATES[Number(stored)]
  invariant(state, `a stored record has the state ${stored}`)
  const left = (time: unknown): number => (Number(time) - Number(now)) / 1_000
  return {
    state,
    fingerprint: String(fingerprint),
    fingerprintVersion: Number(version),
    token: String(token),
    life: String(life),
    attempt: Number(attempt),
    leaseLeftMs: state === 'completed' ? null : left(until),
    expiresInMs: left(expires),
    forgetInMs: left(forget),
    answerDay: dayOf(expires),
  }
}

export function claimedOf([token, life, attempt, expires]: readonly unknown[]): Claimed {
  return { token: String(token), life: String(life), attempt: Number(attempt), answerDay: dayOf(expires) }
}

export function operationOf(id: string, now: unknown, notes: Fields, fields: Fields): StoredOperation | null {
  const record = recordOf(now, fields)
  if (!record) return null
  const [namespace, route, label, recover] = notes
  const { attempt, life, leaseLeftMs } = record
  return {
    id,
    state: stateOf(record),
    namespace: namespace || null,
    route: route || null,
    label: label || null,
    attempt,
    life,
    ageMs: (Number(now) - Number(life)) / 1_000,
    leaseLeftMs,
    recover: recover ?? null,
  }
}

function stateOf({ state, leaseLeftMs, expiresInMs }: StoredRecord): OperationState {
  if (state !== 'inProgress') return state
  if ((leaseLeftMs ?? 0) > 0) return 'running'
  return expiresInMs > 0 ? 'abandoned' : 'unknown'
}

function dayOf(micros: unknown): string {
  return new Date(Number(micros) / 1_000).toISOString().slice(0, 10)
}
