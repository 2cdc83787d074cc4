import { fingerprintOfNull, FINGERPRINT_VERSION } from '../../key/fingerprint.ts'
import { fingerprintLockOf, identity, lockOf } from '../../key/identity.ts'
import { messageScope, partsOf } from '../namespaced/names.ts'
import type { Claim, KeyStore } from '../store.ts'
import type { StoredRecord } from '../../lifecycle/record.ts'

/** What became of a message, by its record. 'held': nobody else runs it while the caller holds the record. */
export type Hold = { readonly kind: 'applied' | 'busy' } | { readonly kind: 'held'; release(): Promise<void> }

/** How long a message is held while its letter is written. */
export const HOLD_MS = 30_000

/**
 * The records of one consumer's messages. A message is a leased operation, and is applied if its record is completed.
 * Whoever parks a message takes its lease first, with a new token, so that an attempt from before can complete nothing.
 */
export class MessageRecords {
  readonly #store: Pick<KeyStore, 'leases' | 'read'>
  readonly #namespace: string
  readonly #scope: string
  readonly #rememberForMs: number

  constructor(
    store: Pick<KeyStore, 'leases' | 'read'>,
    of: { readonly namespace: string; readonly consumer: string; readonly rememberForMs: number },
  ) {
    this.#store = store
    this.#namespace = of.namespace
    this.#scope = messageScope(partsOf(of.consumer).name)
    this.#rememberForMs = of.rememberForMs
  }

  async isApplied(id: string): Promise<boolean> {
    return isCompleted((await this.#store.read({ id: this.#claim(id).id })).record)
  }

  async hold(id: string): Promise<Hold> {
    const { leases } = this.#store
    const params = { claim: this.#claim(id), leaseMs: HOLD_MS, recover: null }
    const { view, claimed } = await leases.claim(params)
    const release = async (token: string): Promise<void> => void (await leases.release({ id: params.claim.id, token }))
    if (claimed) return { kind: 'held', release: () => release(claimed.token) }
    const { record } = view
    if (record && isCompleted(record)) return { kind: 'applied' }
    // An outside call of the message has an open outcome: no attempt runs or completes before an operator settles it.
    if (record && (record.state === 'unknown' || isAbandoned(record)))
      return { kind: 'held', release: () => Promise.resolve() }
    if (!record || (record.state === 'inProgress' && (record.leaseLeftMs ?? 0) > 0)) return { kind: 'busy' }
    const taken = await leases.takeOver({ ...params, seen: record })
    return taken ? { kind: 'held', release: () => release(taken.token) } : { kind: 'busy' }
  }

  #claim(id: string): Claim {
    const fingerprint = fingerprintOfNull()
    const { id: record, scope } = identity({ namespace: this.#namespace, scope: this.#scope, key: id })
    const locks = { lock: lockOf(record), fingerprintLock: fingerprintLockOf(record, fingerprint) }
    const times = { replayForMs: this.#rememberForMs, goneForMs: 0 }
    return { id: record, scope, ...locks, fingerprint, fingerprintVersion: FINGERPRINT_VERSION, ...times }
  }
}

/** Too old to be taken over. */
function isAbandoned({ state, leaseLeftMs, expiresInMs }: StoredRecord): boolean {
  return state === 'inProgress' && (leaseLeftMs ?? 0) <= 0 && expiresInMs <= 0
}

function isCompleted(record: StoredRecord | null): boolean {
  return record?.state === 'completed' && record.expiresInMs > 0
}
