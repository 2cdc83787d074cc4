import { describe, expect, it } from 'vitest'
import { decide, type Decision, type ClaimRules } from './decide.ts'
import { ERASED_FINGERPRINT, type RecordState, type ClaimView, type StoredRecord } from './record.ts'

const SAME = '00000000-0000-0000-0000-000000000001'
const OTHER = '00000000-0000-0000-0000-000000000002'

const record: StoredRecord = {
  state: 'completed',
  fingerprint: SAME,
  fingerprintVersion: 1,
  token: '1',
  life: '1',
  attempt: 1,
  leaseLeftMs: null,
  expiresInMs: 1_000,
  forgetInMs: 2_000,
  answerDay: '2030-01-01',
}
const view: ClaimView = { inserted: false, sameRunning: false, otherRunning: false, record: null, reread: true }
const policy: ClaimRules = { fingerprint: SAME, fingerprintVersion: 1, expired: 'gone' }

function by(changes: Partial<StoredRecord>, policyChanges: Partial<ClaimRules> = {}): Decision['do'] {
  return decide({ ...view, record: { ...record, ...changes } }, { ...policy, ...policyChanges }).do
}

describe('decide without a record', () => {
  it('runs what the claim inserted', () => {
    expect(decide({ ...view, inserted: true, reread: false }, policy)).toEqual({ do: 'run' })
  })

  it('refuses nobody from a snapshot that is older than the locks', () => {
    for (const running of [{ sameRunning: true }, { otherRunning: true }, {}]) {
      expect(decide({ ...view, ...running, reread: false }, policy)).toEqual({ do: 'reread' })
    }
  })

  it('tells the same running request from another one, and a swept record from both', () => {
    expect(decide({ ...view, sameRunning: true }, policy)).toEqual({ do: 'inFlight', retryAfterMs: null })
    expect(decide({ ...view, otherRunning: true }, policy)).toEqual({ do: 'mismatch' })
    expect(decide(view, policy)).toEqual({ do: 'claimAgain' })
  })
})

describe('decide by the record', () => {
  it('replays, refuses another request, and lets the record speak before the locks', () => {
    expect(by({})).toBe('replay')
    expect(by({ fingerprint: OTHER })).toBe('mismatch')
    expect(decide({ ...view, sameRunning: true, reread: false, record }, policy).do).toBe('replay')
  })

  it.each<[RecordState, number | null, number, Decision['do']]>([
    ['completed', null, 1, 'replay'],
    ['completed', null, 0, 'gone'],
    ['inProgress', 500, 1, 'inFlight'],
    ['inProgress', 0, 1, 'takeOver'],
    ['inProgress', -5, 1, 'takeOver'],
    ['inProgress', -5, 0, 'unknown'],
    ['inProgress', 500, 0, 'inFlight'],
    ['unknown', -5, 1, 'unknown'],
    ['unknown', -5, -1, 'unknown'],
  ])('%s, lease left %s, expires in %s: %s', (state, leaseLeftMs, expiresInMs, expected) => {
    expect(by({ state, leaseLeftMs, expiresInMs })).toBe(expected)
    // 422 comes before everything a live record could say
    expect(by({ state, leaseLeftMs, expiresInMs, fingerprint: OTHER })).toBe('mismatch')
  })

  it('says how long the lease still runs', () => {
    const decision = decide({ ...view, record: { ...record, state: 'inProgress', leaseLeftMs: 123 } }, policy)
    expect(decision).toEqual({ do: 'inFlight', retryAfterMs: 123 })
  })

  it('starts a new life when the old one is forgotten, or expired and the policy says rerun', () => {
    expect(by({ expiresInMs: -1, forgetInMs: 0 })).toBe('renew')
    expect(by({ expiresInMs: -1, forgetInMs: 0, fingerprint: OTHER })).toBe('renew')
    expect(by({ expiresInMs: -1 }, { expired: 'rerun' })).toBe('renew')
    expect(by({ expiresInMs: 1 }, { expired: 'rerun' })).toBe('replay')
    // never what is not finished: its outside call may have happened
    expect(by({ state: 'unknown', expiresInMs: -1, forgetInMs: -1 }, { expired: 'rerun' })).toBe('unknown')
    expect(by({ state: 'inProgress', leaseLeftMs: -1, expiresInMs: -1, forgetInMs: -1 }, { expired: 'rerun' })).toBe(
      'unknown',
    )
  })

  it('never makes an upgrade of the fingerprint a mismatch', () => {
    expect(by({ fingerprint: OTHER, fingerprintVersion: 2 })).toBe('replay')
  })

  it('never runs or replays an erased operation before it is forgotten', () => {
    for (const expired of ['gone', 'rerun'] as const) {
      for (const expiresInMs of [1, 0, -1]) {
        expect(by({ ...ERASED_FINGERPRINT, expiresInMs }, { expired })).toBe('gone')
        expect(by({ ...ERASED_FINGERPRINT, expiresInMs, forgetInMs: 0 }, { expired })).toBe('renew')
      }
    }
  })
})
