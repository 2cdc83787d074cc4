import { oneOf } from '../options.ts'
import type { Span, Trace } from '../observe/tracing.ts'
import { FINGERPRINT_VERSION } from '../key/fingerprint.ts'
import { fingerprintLockOf, identity, lockOf, type Identity } from '../key/identity.ts'
import { checkKey, checkScope } from '../key/parse-key.ts'
import type { ClaimRules } from '../lifecycle/decide.ts'
import type { Claim } from '../store/store.ts'
import { deadlineMs, endsWithinMs, goneForMs, replayForMs, waitMs, type Settings } from './settings.ts'
import type { RunOptions } from './types.ts'

/** One call of one key, checked and hashed: what every mode works with. */
export interface Request {
  readonly key: string
  readonly scope: string
  readonly claim: Claim
  readonly policy: ClaimRules
  readonly deadlineMs: number
  /** Leased only: the whole operation ends within this time, however often its lease is renewed. */
  readonly endsWithinMs: number
  /** 0: refuse a duplicate at once. */
  readonly waitMs: number
  /** For messages, metrics and the route's own Retry-After. */
  readonly route: string
  /** When the call came, on the monotonic clock. None of its statements ran before. */
  readonly at: number
  /** A call that finds the operation running follows its stream, and is not refused. */
  readonly attaches?: boolean
  /** The handler may be called again after a serialization failure. */
  readonly rerunnable: boolean
  /** Events carry it. The request's own trace, until the operation has a span. */
  trace: Trace | undefined
  /** Absent: nobody traces. */
  span?: Span | undefined
}

export interface RequestParams {
  readonly scope: unknown
  readonly key: unknown
  readonly fingerprint: string
  readonly route: string
  readonly at: number
  readonly rerunnable: boolean
  readonly trace?: Trace | undefined
  readonly overrides?: Pick<
    RunOptions<undefined>,
    'inFlight' | 'expired' | 'deadline' | 'endsWithin' | 'replayFor' | 'goneFor'
  >
}

const NO_OVERRIDES: NonNullable<RequestParams['overrides']> = {}

export function requestOf(settings: Settings, params: RequestParams): Request {
  const scope = checkScope(params.scope)
  const key = checkKey(params.key)
  const overrides = params.overrides ?? NO_OVERRIDES
  const ids = identity({ namespace: settings.namespace, scope, key })
  const { fingerprint } = params
  return {
    key,
    scope,
    claim: new RequestClaim(ids, fingerprint, {
      replayForMs: settings.reach.note(replayForMs(overrides.replayFor, settings.replayForMs)),
      goneForMs: goneForMs(overrides.goneFor, settings.goneForMs),
    }),
    policy: {
      fingerprint,
      fingerprintVersion: FINGERPRINT_VERSION,
      expired: oneOf('expired', overrides.expired, ['gone', 'rerun'], settings.expired),
    },
    deadlineMs: deadlineMs(overrides.deadline, settings.deadlineMs),
    endsWithinMs: endsWithinMs(overrides.endsWithin, settings.endsWithinMs),
    waitMs: waitMs(overrides.inFlight, settings.waitMs),
    route: params.route,
    at: params.at,
    rerunnable: params.rerunnable,
    trace: params.trace,
    span: undefined,
  }
}

/** A claim whose lock numbers are computed when they are first read, because a replay from memory needs none. */
class RequestClaim implements Claim {
  readonly id: string
  readonly scope: string
  readonly fingerprint: string
  readonly fingerprintVersion = FINGERPRINT_VERSION
  readonly replayForMs: number
  readonly goneForMs: number

  constructor(of: Identity, fingerprint: string, keeps: Pick<Claim, 'replayForMs' | 'goneForMs'>) {
    this.id = of.id
    this.scope = of.scope
    this.fingerprint = fingerprint
    this.replayForMs = keeps.replayForMs
    this.goneForMs = keeps.goneForMs
  }

  get lock(): string {
    return lockOf(this.id)
  }

  get fingerprintLock(): string {
    return fingerprintLockOf(this.id, this.fingerprint)
  }
}

/** The same claim with another expiry. A spread alone would lose the locks. */
export function resumable(claim: Claim, replayForMs: number): Claim {
  const { lock, fingerprintLock } = claim
  return { ...claim, lock, fingerprintLock, replayForMs }
}
