import { invariant } from '../invariant.ts'
import { onceError } from '../errors.ts'
import type { Answer } from '../lifecycle/answer.ts'
import { isErased, type ClaimView, type StoredRecord } from '../lifecycle/record.ts'
import { CLAIM_TRIES_MAX } from '../limits.ts'
import { sleep } from '../platform/clock.ts'
import type { Claimed } from '../store/store.ts'
import type { Core } from './core.ts'
import { replayed } from './execute.ts'
import { refusalOf, replayOf, type Busy, type Outcome } from './outcome.ts'
import type { Request } from './request.ts'

/** The result of a claim. Refusals are thrown. */
export type ClaimOutcome =
  { readonly kind: 'won'; readonly claimed: Claimed } | { readonly kind: 'replay'; readonly outcome: Outcome } | Busy

/** Where a claim is settled: inside an open transaction, or by statements that commit by themselves. */
export interface ClaimAccess {
  claim(): Promise<{ readonly view: ClaimView; readonly claimed: Claimed | null }>
  /** A new statement, hence a new snapshot. */
  reread(): Promise<StoredRecord | null>
  /**
   * Starts a new life of an expired record, or the next attempt of a lapsed one. Returns a view if another call was
   * quicker.
   */
  take(seen: StoredRecord, view: ClaimView): Promise<ClaimOutcome | ClaimView>
  answer(record: StoredRecord): Promise<Answer | null>
  /**
   * Absent if all records that were read are committed. Otherwise the record may belong to this transaction, and others
   * see it only after the commit.
   */
  afterCommit?(action: () => void): void
}

/** Nearly every new key is won at the first view, without another statement. */
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
 * like another request that is running. So a request is not refused by locks that were seen only once.
 */
const LOCK_LOOKS = 3
const LOCK_LOOK_MS = 10

/**
 * Leads from the first view of a key to a reliable decision. A request is never refused from a snapshot that is older
 * than the locks. If the record was swept in between, the key is claimed again.
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
        const answer = await access.answer(decision.record)
        if (answer === null) await refuseErased(access)
        const outcome = replayOf(answer)
        const keep = (): void => remember(core, request, outcome, decision.record)
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

/** An erasure may have come between the record and its answer. */
async function refuseErased(access: ClaimAccess): Promise<void> {
  const record = await access.reread()
  if (record && isErased(record)) throw refusalOf({ do: 'gone' })
}

/** Counted from the call, before its first statement, so that the cache entry never outlives the record. */
export function remember<Tx>(core: Core<Tx>, request: Request, { answer }: Outcome, record: StoredRecord): void {
  if (!answer.kept) return
  const { id, fingerprint, fingerprintVersion } = request.claim
  const { life, expiresInMs } = record
  const entry = { fingerprint, fingerprintVersion, answer, life, until: request.at + expiresInMs }
  core.cache.set(id, entry, request)
  core.shared?.set(id, entry, request)
}
