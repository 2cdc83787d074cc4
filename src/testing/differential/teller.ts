import type { ClaimView, StoredRecord } from '../../lifecycle/record.ts'
import type { Claim, Claimed } from '../../store/store.ts'

/** Describes the results of a store in a form in which two stores can be compared: without times and tokens. */
export class Teller {
  private readonly names = new Map<string, string>()

  shown(claim: Claim, view: ClaimView, claimed: Claimed | null, record: StoredRecord | null): unknown {
    const { inserted, sameRunning, otherRunning } = view
    return { inserted, sameRunning, otherRunning, claimed: this.won(claimed, claim), record: this.seen(record, claim) }
  }

  won(claimed: Claimed | null, { id }: Claim): unknown {
    if (claimed === null) return null
    return [this.name(id, claimed.token), this.name(id, `life ${claimed.life}`), claimed.attempt]
  }

  seen(record: StoredRecord | null, { id }: Claim): unknown {
    if (record === null) return null
    const { state, token, life, attempt, leaseLeftMs, expiresInMs, forgetInMs, fingerprint } = record
    const lease = leaseLeftMs === null ? null : leaseLeftMs > 0
    const names = [this.name(id, token), this.name(id, `life ${life}`)]
    return [state, names, attempt, lease, expiresInMs > 0, forgetInMs > 0, fingerprint]
  }

  /** Tokens differ from store to store, but the equality of two tokens of a key does not. */
  private name(id: string, token: string): string {
    const name = `${id} ${token}`
    const known = this.names.get(name) ?? `#${this.names.size}`
    this.names.set(name, known)
    return known
  }
}
