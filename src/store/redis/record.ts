import { invariant } from '../../invariant.ts'
import type { RecordState, StoredRecord } from '../../lifecycle/record.ts'
import type { Claimed, LeaseParams, OperationNotes, OperationState, StoredOperation } from '../store.ts'

const STATES: readonly (RecordState | undefined)[] = [undefined, 'inProgress', 'completed', 'unknown']
const NO_NOTES = { namespace: null, route: null, label: null }

/** The number by which a record stores its state. */
export function stateNumber(state: RecordState): string {
  return String(STATES.indexOf(state))
}

/** What a record has after its attempt: fingerprint, version and the text for operators, which may have semicolons. */
export function endOfRecord({ claim, about }: Pick<LeaseParams, 'claim' | 'about'>): string {
  return `;${claim.fingerprintVersion};${claim.fingerprint};${about ? JSON.stringify(about) : ''}`
}

/** `now`: the server's time when the script ran. Null: there is no record. */
export function recordOf(now: unknown, text: string | null): StoredRecord | null {
  if (text === null) return null
  const { stored, token, base, until, expires, forget, life, attempt, version, fingerprint } = partsOf(text)
  const state = STATES[Number(stored)]
  invariant(state, `a stored record has the state ${stored}`)
  const left = (after: unknown): number => (Number(base) + Number(after) - Number(now)) / 1_000
  return {
    state,
    fingerprint,
    fingerprintVersion: Number(version),
    token,
    life,
    attempt: Number(attempt),
    leaseLeftMs: state === 'completed' ? null : left(until),
    expiresInMs: left(expires),
    forgetInMs: left(forget),
    answerDay: dayOf(Number(base) + Number(expires)),
  }
}

/** Of a new key: the token is the time of the claim. */
export function newClaimOf(token: string, replayForMs: number): Claimed {
  return { token, life: token, attempt: 1, answerDay: dayOf(Number(token) + replayForMs * 1_000) }
}

export function claimedOf(text: string): Claimed {
  const { token, life, attempt, base, expires } = partsOf(text)
  return { token, life, attempt: Number(attempt), answerDay: dayOf(Number(base) + Number(expires)) }
}

export function operationOf(id: string, now: unknown, text: string): Omit<StoredOperation, 'recover'> {
  const record = recordOf(now, text) as StoredRecord
  const { attempt, life, leaseLeftMs } = record
  const about = partsOf(text).about === '' ? NO_NOTES : (JSON.parse(partsOf(text).about) as OperationNotes)
  const ageMs = (Number(now) - Number(life)) / 1_000
  return { id, state: stateOf(record), ...about, attempt, life, ageMs, leaseLeftMs }
}

/** The parts of a record's text, as scripts.ts describes them. */
function partsOf(text: string) {
  const middle = text.indexOf('|')
  const [stored, token = '', base, until, expires, forget] = text.slice(0, middle).split(';')
  const [life = '', attempt, version, fingerprint = '', ...about] = text.slice(middle + 1).split(';')
  return { stored, token, base, until, expires, forget, life, attempt, version, fingerprint, about: about.join(';') }
}

function stateOf({ state, leaseLeftMs, expiresInMs }: StoredRecord): OperationState {
  if (state !== 'inProgress') return state
  if ((leaseLeftMs ?? 0) > 0) return 'running'
  return expiresInMs > 0 ? 'abandoned' : 'unknown'
}

const DAY_US = 86_400_000_000
let lastDay = { number: 0, text: '1970-01-01' }

/** Most records of a process expire on the same day, and a date is slow to write as text. */
function dayOf(micros: number): string {
  const number = Math.floor(micros / DAY_US)
  if (number !== lastDay.number) {
    lastDay = { number, text: new Date(micros / 1_000).toISOString().slice(0, 10) }
  }
  return lastDay.text
}
