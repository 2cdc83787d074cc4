import { invariant } from '../invariant.ts'
import { onceError } from '../errors.ts'
import type { Answer } from '../lifecycle/answer.ts'
import type { ClaimView, StoredRecord } from '../lifecycle/record.ts'
import { CLAIM_TRIES_MAX } from '../limits.ts'
import { sleep } from '../platform/clock.ts'
import type { Claimed } from '../store/store.ts'
import type { Core } from './core.ts'
import { replayed } from './execute.ts'
import { refusalOf, replayOf, type Busy, type Outcome } from './outcome.ts'
import type { Request } from './request.ts'

/** What a claim came to. Refusals are thrown. */
export type ClaimOutcome =
  { readonly kind: 'won'; readonly claimed: Claimed } | { readonly kind: 'replay'; readonly outcome: Outcome } | Busy

/** Where a claim is settled: inside an open transaction, or by statements that commit by themselves. */
export interface ClaimAccess {
  claim(): Promise<{ readonly view: ClaimView; readonly claimed: Claimed | null }>
  /** A new statement, hence a new snapshot. */
  reread(): Promise<StoredRecord | null>
  /** A new life for an expired record, or the next attempt of a lapsed one; a view when somebody was quicker. */
  take(seen: StoredRecord, view: ClaimView): Promise<ClaimOutcome | ClaimView>
  answer(record: StoredRecord): Promise<Answer | null>
  /** Absent: what was read is committed. Else the record may be of this very transaction, and is known to all only then. */
  afterCommit?(action: () => void): void
}

/** Nearly every fresh key is won at the first view: nothing to wait for. */
export function settledAtOnce<Tx>(
  core: Core<Tx>,
  request: Request,
  first: { readonly view: ClaimView; readonly claimed: Claimed | null },
): (ClaimOutcome & { kind: 'won' }) | null {
  if (!first.claimed || core.decide(first.view, request.policy).do !== 'run') return null
  return { kind: 'won', claimed: first.claimed }
}

/**
 * A server releases the locks of a transaction one after the other. In between, a rollback of the same request looks
 * like another request that is running. So nobody is refused by locks alone that were seen once.
 */
const LOCK_LOOKS = 3
const LOCK_LOOK_MS = 10

/**
 * From the first view of a key to a decision that can be believed: nobody is refused from a snapshot that is older than
 * the locks, and a record that was swept in between is claimed again.
 */
export async function settle<Tx>(
  core: Core<Tx>,
  request: Request,
  access: ClaimAccess,
  first: { readonly view: ClaimView; readonly claimed: Claimed | null },
): Promise<ClaimOutcome> {
  let { view, claimed } = first
  let looks = 0
  for (let tries = 0; tries < CLAIM_TRIES_MAX; tries++) {
    const decision = core.decide(view, request.policy)
    switch (decision.do) {
      case 'run':
        invariant(claimed, 'a claim was won without a token')
        return { kind: 'won', claimed }
      case 'reread':
        view = { ...view, record: await access.reread(), reread: true }
        break
      case 'claimAgain':
        ;({ view, claimed } = await access.claim())
        break
      case 'renew':
      case 'takeOver': {
        const taken = await access.take(decision.record, view)
        if ('kind' in taken) return taken
        view = taken
        break
      }
      case 'replay': {
        const outcome = replayOf(await access.answer(decision.record))
        const keep = (): void => remember(core, request, outcome, decision.record.expiresInMs)
        if (access.afterCommit) access.afterCommit(keep)
        else keep()
        replayed(core, request, 'database')
        return { kind: 'replay', outcome }
      }
      case 'inFlight':
        return { kind: 'busy', retryAfterMs: decision.retryAfterMs }
      case 'mismatch':
        if (view.record || looks++ === LOCK_LOOKS) throw refusalOf(decision)
        await sleep(core.clock, LOCK_LOOK_MS)
        ;({ view, claimed } = await access.claim())
        tries = -1
        break
      default:
        throw refusalOf(decision)
    }
  }
  throw onceError('ONCE_CONFLICT', { detail: 'The record changed each time it was read' })
}

/** Counted from the call, before which no statement of it ran: the memory never outlives the record. */
export function remember<Tx>(core: Core<Tx>, { claim, at }: Request, outcome: Outcome, expiresInMs: number): void {
  if (!outcome.answer.kept) return
  const { fingerprint, fingerprintVersion } = claim
  core.cache.set(claim.id, { fingerprint, fingerprintVersion, answer: outcome.answer, until: at + expiresInMs })
}
