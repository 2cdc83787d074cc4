import { invariant } from '../../invariant.ts'
import type { RecordState, StoredRecord } from '../../lifecycle/record.ts'
import type { Row } from '../store.ts'

const STATES: readonly (RecordState | undefined)[] = [undefined, 'inProgress', 'completed', 'unknown']

/** Reads a record that our statements wrote. A row that we cannot have written stops the operation. */
export function recordOf(row: Row | undefined): StoredRecord | null {
  if (!row || row['state'] === null || row['state'] === undefined) return null
  const state = STATES[Number(row['state'])]
  invariant(state, `a stored record has the state ${String(row['state'])}`)
  return {
    state,
    fingerprint: String(row['fp']),
    fingerprintVersion: Number(row['fp_version']),
    token: String(row['token']),
    life: String(row['life']),
    attempt: Number(row['attempt']),
    leaseLeftMs: row['lease_left_ms'] === null ? null : Number(row['lease_left_ms']),
    expiresInMs: Number(row['expires_in_ms']),
    forgetInMs: Number(row['forget_in_ms']),
    answerDay: String(row['day']),
  }
}
