import { onceError } from '../errors.ts'
import type { Answer } from '../lifecycle/answer.ts'
import type { Sight, StoredRecord } from '../lifecycle/record.ts'
import type { Claim, Claimed, Session } from '../store/store.ts'
import type { Core } from './core.ts'
import type { Request } from './request.ts'
import { settle, type Seat, type Settled } from './settle.ts'

/** Settles a claim in an open transaction. */
export function settleClaim<Tx>(
  core: Core<Tx>,
  request: Request,
  session: Session<unknown>,
  first: { readonly sight: Sight; readonly claimed: Claimed | null },
): Promise<Settled> {
  return settle(core, request, new SessionSeat(session, request.claim), first)
}

class SessionSeat implements Seat {
  readonly #session: Session<unknown>
  readonly #claim: Claim

  constructor(session: Session<unknown>, claim: Claim) {
    this.#session = session
    this.#claim = claim
  }

  claim(): ReturnType<Seat['claim']> {
    return this.#session.claim(this.#claim)
  }

  reread(): Promise<StoredRecord | null> {
    return this.#session.reread(this.#claim)
  }

  async answer(record: StoredRecord): Promise<Answer | null> {
    return (await this.#session.read({ id: this.#claim.id, seen: record })).answer
  }

  /**
   * A new life for an expired record, or an atomic attempt at a leased operation that lapsed before its first step. Only
   * with the identity's lock: without it another transaction is renewing, uncommitted.
   */
  async take(seen: StoredRecord, sight: Sight): Promise<Settled | Sight> {
    if (sight.sameRunning || sight.otherRunning) return { kind: 'busy', retryAfterMs: null }
    const claimed = await this.#session.renew(this.#claim, seen)
    if (claimed) return { kind: 'won', claimed }
    const record = await this.reread()
    if (record?.token === seen.token && record.state === 'inProgress') {
      // Lapsed with steps recorded: only a leased handler can resume after them.
      throw onceError('ONCE_OUTCOME_UNKNOWN', {
        detail: 'This operation was started with a lease and has recorded steps; run it with a lease',
      })
    }
    return { ...sight, record, reread: true }
  }
}
