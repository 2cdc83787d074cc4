import { onceError } from '../errors.ts'
import { CLAIM_TRIES_MAX } from '../limits.ts'
import type { Sight, StoredRecord } from '../lifecycle/record.ts'
import type { Claimed, Session } from '../store/store.ts'
import { replayed } from './execute.ts'
import type { Core } from './core.ts'
import { refusalOf, replayOf, type Busy, type Outcome } from './outcome.ts'
import type { Request } from './request.ts'

/** What a claim in an open transaction came to. Refusals are thrown. */
export type Settled =
  { readonly kind: 'won'; readonly claimed: Claimed } | { readonly kind: 'replay'; readonly outcome: Outcome } | Busy

/**
 * From the first sight of a key to a decision that can be believed: nobody is refused from a snapshot that is older than
 * the locks, and a record that was swept in between is claimed again.
 */
export async function settleClaim<Tx>(
  core: Core<Tx>,
  request: Request,
  session: Session<unknown>,
  first: { readonly sight: Sight; readonly claimed: Claimed | null },
): Promise<Settled> {
  const { claim, policy } = request
  let { sight, claimed } = first
  for (let tries = 0; tries < CLAIM_TRIES_MAX; tries++) {
    const decision = core.decide(sight, policy)
    switch (decision.do) {
      case 'run':
        if (!claimed) throw onceError('ONCE_INVARIANT', { detail: 'a claim was won without a token' })
        return { kind: 'won', claimed }
      case 'reread':
        sight = { ...sight, record: await session.reread(claim), reread: true }
        break
      case 'claimAgain':
        ;({ sight, claimed } = await session.claim(claim))
        break
      case 'renew':
      case 'takeOver': {
        const renewed = await renew(core, request, session, decision.record, sight)
        if ('kind' in renewed) return renewed
        sight = renewed
        break
      }
      case 'replay': {
        const { answer } = await session.read({ id: claim.id, seen: decision.record })
        const outcome = replayOf(answer)
        remember(core, request, outcome, decision.record.expiresInMs)
        replayed(core, request, 'database')
        return { kind: 'replay', outcome }
      }
      case 'inFlight':
        return { kind: 'busy', retryAfterMs: decision.retryAfterMs }
      default:
        throw refusalOf(decision)
    }
  }
  throw onceError('ONCE_CONFLICT', { detail: 'The record changed with every look at it' })
}

/**
 * A new life for an expired record, or an atomic attempt at a leased operation that lapsed before its first step. Only
 * with the identity's lock: without it another transaction is renewing, uncommitted.
 */
async function renew<Tx>(
  core: Core<Tx>,
  request: Request,
  session: Session<unknown>,
  seen: StoredRecord,
  sight: Sight,
): Promise<Settled | Sight> {
  if (sight.sameRunning || sight.otherRunning) return { kind: 'busy', retryAfterMs: null }
  const claimed = await session.renew(request.claim, seen)
  if (claimed) return { kind: 'won', claimed }
  const record = await session.reread(request.claim)
  if (record?.token === seen.token && record.state === 'inProgress') {
    // Lapsed with steps recorded: only a leased handler can resume after them.
    throw onceError('ONCE_OUTCOME_UNKNOWN', {
      detail: 'This operation was started with a lease and has recorded steps; run it with a lease',
    })
  }
  return { ...sight, record, reread: true }
}

/** Counted from the call, before which no statement of it ran: the memory never outlives the record. */
export function remember<Tx>(core: Core<Tx>, { claim, at }: Request, outcome: Outcome, expiresInMs: number): void {
  if (!outcome.answer.kept) return
  const { fingerprint, fingerprintVersion } = claim
  core.cache.set(claim.id, { fingerprint, fingerprintVersion, answer: outcome.answer, until: at + expiresInMs })
}
