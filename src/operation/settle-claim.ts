import { onceError } from '../errors.ts'
import type { Answer } from '../lifecycle/answer.ts'
import type { ClaimView, StoredRecord } from '../lifecycle/record.ts'
import type { Claim, Claimed, Session } from '../store/store.ts'
import type { Core } from './core.ts'
import type { Enclosing } from './enclosing.ts'
import type { Request } from './request.ts'
import { settle, type ClaimAccess, type ClaimOutcome } from './settle.ts'
import type { SharedTransaction } from './shared-transaction.ts'

/** Settles a claim in a transaction that was opened for it. All records of others that it reads are committed. */
export function settleClaim<Tx>(
  core: Core<Tx>,
  request: Request,
  session: Session<unknown>,
  first: { readonly view: ClaimView; readonly claimed: Claimed | null },
): Promise<ClaimOutcome> {
  return settle(core, request, new SessionClaimAccess(session, request.claim), first)
}

/** Settles a claim in a transaction that other operations share. */
export async function settleInside<Tx>(
  core: Core<Tx>,
  request: Request,
  host: Pick<Enclosing, 'checkOpen'> & { readonly transaction: SharedTransaction },
): Promise<ClaimOutcome> {
  const { session } = host.transaction
  const access: ClaimAccess = Object.assign(new SessionClaimAccess(session, request.claim, () => host.checkOpen()), {
    afterCommit: (action: () => void) => host.transaction.afterCommit(action, request.claim.id),
  })
  host.checkOpen()
  return settle(core, request, access, await session.claim(request.claim))
}

class SessionClaimAccess implements ClaimAccess {
  readonly #session: Session<unknown>
  readonly #claim: Claim
  /** Called before each further statement. */
  readonly #check: () => void

  constructor(session: Session<unknown>, claim: Claim, check: () => void = () => {}) {
    this.#session = session
    this.#claim = claim
    this.#check = check
  }

  claim(): ReturnType<ClaimAccess['claim']> {
    this.#check()
    return this.#session.claim(this.#claim)
  }

  reread(): Promise<StoredRecord | null> {
    this.#check()
    return this.#session.reread(this.#claim)
  }

  async answer(record: StoredRecord): Promise<Answer | null> {
    this.#check()
    return (await this.#session.read({ id: this.#claim.id, seen: record })).answer
  }

  /**
   * A new life for an expired record, or an atomic attempt at a leased operation that lapsed before its first step. Only
   * with the identity's lock: without it another transaction is renewing, uncommitted.
   */
  async take(seen: StoredRecord, view: ClaimView): Promise<ClaimOutcome | ClaimView> {
    if (view.sameRunning || view.otherRunning) return { kind: 'busy', retryAfterMs: null }
    this.#check()
    const claimed = await this.#session.renew(this.#claim, seen)
    if (claimed) return { kind: 'won', claimed }
    const record = await this.reread()
    if (record?.token === seen.token && record.state === 'inProgress') {
      // The lease lapsed after steps were recorded: only a leased handler can resume after them.
      throw onceError('ONCE_OUTCOME_UNKNOWN', {
        detail: 'This operation was started with a lease and has recorded steps; run it with a lease',
      })
    }
    return { ...view, record, reread: true }
  }
}
