import { fingerprintLockOf, identity, lockOf } from '../../src/key/identity.ts'
import { fingerprintInput } from '../../src/key/fingerprint.ts'
import type { Claim } from '../../src/store/store.ts'

/** A claim as `run` makes it, for tests below `run`. */
export function claimOf(key: string, input: unknown = 1): Claim {
  const { id, scope } = identity({ namespace: 'test', scope: 'u', key })
  const fingerprint = fingerprintInput(input)
  return {
    id,
    scope,
    lock: lockOf(id),
    fingerprintLock: fingerprintLockOf(id, fingerprint),
    fingerprint,
    fingerprintVersion: 1,
    replayForMs: 60_000,
    goneForMs: 60_000,
  }
}
