import { FINGERPRINT_VERSION, fingerprintInput } from '../key/fingerprint.ts'
import { identity, lockOf } from '../key/identity.ts'
import { checkKey, checkScope } from '../key/parse-key.ts'
import type { Policy } from '../lifecycle/decide.ts'
import type { Claim } from '../store/store.ts'
import { deadlineMs, goneForMs, oneOf, replayForMs, waitMs, type Settings } from './settings.ts'
import type { RunOptions } from './types.ts'

/** One call of one key, checked and hashed: what every mode works with. */
export interface Request {
  readonly key: string
  readonly scope: string
  readonly claim: Claim
  readonly policy: Policy
  readonly deadlineMs: number
  /** 0: refuse a duplicate at once. */
  readonly waitMs: number
  /** For messages, metrics and the route's own Retry-After. */
  readonly route: string
  /** When the call came, on the monotonic clock: no statement of its has run before. */
  readonly at: number
  /** The handler may be called again after a serialization failure. */
  readonly rerunnable: boolean
  /** Events carry it. */
  readonly traceparent: string | undefined
}

export interface RequestParams {
  readonly scope: unknown
  readonly key: unknown
  readonly fingerprint: string
  readonly route: string
  readonly at: number
  readonly rerunnable: boolean
  readonly traceparent?: string | undefined
  readonly overrides?: Pick<RunOptions<undefined>, 'inFlight' | 'expired' | 'deadline' | 'replayFor' | 'goneFor'>
}

const NO_OVERRIDES: NonNullable<RequestParams['overrides']> = {}

export function requestOf(settings: Settings, params: RequestParams): Request {
  const scope = checkScope(params.scope)
  const key = checkKey(params.key)
  const overrides = params.overrides ?? NO_OVERRIDES
  const { id, scope: scopeId, lock } = identity({ namespace: settings.namespace, scope, key })
  const { fingerprint } = params
  return {
    key,
    scope,
    claim: {
      id,
      scope: scopeId,
      lock,
      fingerprintLock: lockOf(id, fingerprint),
      fingerprint,
      fingerprintVersion: FINGERPRINT_VERSION,
      replayForMs: replayForMs(overrides.replayFor, settings.replayForMs),
      goneForMs: goneForMs(overrides.goneFor, settings.goneForMs),
    },
    policy: {
      fingerprint,
      fingerprintVersion: FINGERPRINT_VERSION,
      expired: oneOf('expired', overrides.expired, ['gone', 'rerun'], settings.expired),
    },
    deadlineMs: deadlineMs(overrides.deadline, settings.deadlineMs),
    waitMs: waitMs(overrides.inFlight, settings.waitMs),
    route: params.route,
    at: params.at,
    rerunnable: params.rerunnable,
    traceparent: params.traceparent,
  }
}

export { fingerprintInput }
