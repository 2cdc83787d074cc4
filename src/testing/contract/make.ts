import { strict as assert } from 'node:assert'
import { isOnceError } from '../../errors.ts'
import type { OnceCode } from '../../errors.ts'
import { fingerprintInput } from '../../key/fingerprint.ts'
import { fingerprintLockOf, identity, lockOf } from '../../key/identity.ts'
import type { Answer } from '../../lifecycle/answer.ts'
import type { ClaimView, StoredRecord } from '../../lifecycle/record.ts'
import type { Claim, Claimed, CompleteParams, KeyStore, LeaseParams, SqlSession, SqlStore } from '../../store/store.ts'

const encoder = new TextEncoder()
let serial = 0

/** Every case has its own key, because subjects may share one database. */
export function newKey(): string {
  return `contract-${process.pid}-${Date.now()}-${++serial}`
}

export interface Times {
  readonly replayForMs?: number
  readonly goneForMs?: number
}

export const LONG_MS = 3_600_000
export const DEADLINE_MS = 20_000
export const LEASE_MS = 20_000

export function claimOf(
  key: string,
  input: unknown = 1,
  { replayForMs = LONG_MS, goneForMs = LONG_MS }: Times = {},
): Claim {
  const { id, scope } = identity({ namespace: 'contract', scope: 'tenant', key })
  const fingerprint = fingerprintInput(input)
  const fingerprintLock = fingerprintLockOf(id, fingerprint)
  return { id, scope, lock: lockOf(id), fingerprintLock, fingerprint, fingerprintVersion: 1, replayForMs, goneForMs }
}

export function answerOf(text: string, status = 200): Answer {
  const headers = [
    ['x-first', '1'],
    ['x-second', 'a, b'],
    ['x-first', '2'],
  ] as const
  return { status, headers, body: encoder.encode(text), kept: true }
}

export function leaseOf(claim: Claim, leaseMs: number = LEASE_MS): LeaseParams {
  return { claim, leaseMs, recover: null }
}

export function completing(claim: Claim, claimed: Claimed, text: string, fenced = false): CompleteParams {
  return { claim, claimed, answer: answerOf(text), events: [], fenced }
}

/** Claims in a transaction, and fails the test if the claim is lost. */
export async function win<Tx>(
  store: SqlStore<Tx>,
  claim: Claim,
  deadlineMs: number = DEADLINE_MS,
): Promise<{ session: SqlSession<Tx>; claimed: Claimed }> {
  const { session, claimed, view } = await store.begin({ claim, deadlineMs })
  assert.equal(view.inserted, true, 'the claim was not won')
  assert.ok(claimed)
  return { session, claimed }
}

/** Claims with a lease, and fails the test if the claim is lost. */
export async function winLease(store: KeyStore, claim: Claim, leaseMs?: number): Promise<Claimed> {
  const { claimed } = await store.leases.claim(leaseOf(claim, leaseMs))
  assert.ok(claimed, 'the lease was not won')
  return claimed
}

/** Runs one complete leased operation, from claim to answer. */
export async function finishOne(store: KeyStore, claim: Claim, answer: Answer = answerOf('{"n":1}')): Promise<Claimed> {
  const claimed = await winLease(store, claim)
  assert.equal(await store.leases.finish({ id: claim.id, token: claimed.token, claim, answer }), true)
  return claimed
}

/** Runs one complete operation: claim, effect and commit. */
export async function commitOne<Tx>(
  { store, effect }: { readonly store: SqlStore<Tx>; effect(tx: Tx, key: string): Promise<void> },
  key: string,
  claim: Claim,
  text = '{"n":1}',
): Promise<Claimed> {
  const { session, claimed } = await win(store, claim)
  await effect(session.tx, key)
  assert.equal(await session.complete(completing(claim, claimed, text)), 'committed')
  return claimed
}

/**
 * Reads the state of a key in the same way as `run`. It claims the key, and reads once more when the snapshot of the
 * claim may be out of date.
 */
export async function look<Tx>(store: SqlStore<Tx>, claim: Claim): Promise<ClaimView> {
  const { session, view } = await store.begin({ claim, deadlineMs: DEADLINE_MS })
  const believed =
    view.inserted || view.record !== null || view.reread
      ? view
      : { ...view, record: await session.reread(claim), reread: true }
  await session.rollback()
  return believed
}

export function textOf(answer: Answer | null): string | null {
  return answer?.body ? new TextDecoder().decode(answer.body) : null
}

/** Asserts that the promise rejects with one of these codes. */
export async function rejectsWith(work: Promise<unknown>, ...codes: OnceCode[]): Promise<void> {
  try {
    await work
  } catch (error) {
    const code = isOnceError(error) ? error.code : String(error)
    return assert.ok(codes.includes(code as OnceCode), `expected ${codes.join(' or ')}, got ${code}`)
  }
  assert.fail(`expected ${codes.join(' or ')}, but it resolved`)
}

export function pass(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

/** Asserts that the record lives as long as `claimOf` asks, counted from now. An earlier expiry must not remain. */
export function assertLives(record: StoredRecord | null): void {
  assert.ok(record && record.expiresInMs > LONG_MS / 2, 'an earlier time of expiry was kept')
  assert.ok(record.forgetInMs > LONG_MS + LONG_MS / 2, 'an earlier time of forgetting was kept')
}

export function isLater(token: string, than: string): boolean {
  return BigInt(token) > BigInt(than)
}
