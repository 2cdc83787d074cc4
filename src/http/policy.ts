import { ERRORS, type OnceCode } from '../errors.ts'
import { KEY_BYTES_MAX } from '../limits.ts'
import { promiseTerms, type RetentionTerms } from '../operation/retention-terms.ts'
import { waitMs } from '../operation/settings.ts'
import type { Events } from '../outbox/event.ts'
import { problemUri } from './problem.ts'
import type { ProtectedRoute } from './protected-route.ts'

/** Where clients look for the policy. */
export const POLICY_PATH = '/.well-known/idempotency-key'

/**
 * The facts that a client needs for correct retries, made from the options. The IETF draft calls this the "idempotency
 * specification".
 */
export interface Policy {
  readonly header: string
  readonly required: boolean
  readonly methods: readonly string[]
  readonly key: { readonly format: 'any' | 'uuid'; readonly minLength: number; readonly maxLength: number }
  /** The shortest of all routes of the instance, because a client does not know which options a route has. */
  readonly retention: RetentionTerms
  readonly fingerprint: {
    readonly parts: readonly string[]
    readonly ignored: readonly string[]
    readonly headers: readonly string[]
    readonly digest: boolean
  }
  readonly inFlight: { readonly waitFor: number }
  readonly replay: { readonly marker: string; readonly original: string; readonly headers: readonly string[] }
  readonly notStored: readonly string[]
  readonly errors: readonly {
    readonly type: string
    readonly code: OnceCode
    readonly status: number
    readonly title: string
    readonly retryable: boolean
  }[]
}

/** The errors a client can do something about. */
const CLIENT_ERRORS: readonly OnceCode[] = [
  'ONCE_KEY_MISSING',
  'ONCE_KEY_INVALID',
  'ONCE_KEY_TWICE',
  'ONCE_BODY_INVALID',
  'ONCE_BODY_TOO_LARGE',
  'ONCE_MISMATCH',
  'ONCE_IN_FLIGHT',
  'ONCE_OUTCOME_UNKNOWN',
  'ONCE_UNREPLAYABLE',
  'ONCE_GONE',
  'ONCE_STORE_UNAVAILABLE',
  'ONCE_COMMIT_UNKNOWN',
  'ONCE_CONFLICT',
  'ONCE_DEADLINE',
  'ONCE_LEASE_LOST',
  'ONCE_QUEUE_FULL',
]

const NOT_STORED: readonly string[] = ['401', '403', '408', '409', '423', '425', '429', '5XX']

export function policyOf<Tx, E extends Events, Req>({ route, instance }: ProtectedRoute<Tx, E, Req>): Policy {
  const { settings } = instance.core
  const { overrides, keyFormat } = route
  return {
    header: route.header,
    required: route.required,
    methods: [...route.methods],
    key: {
      format: keyFormat === 'uuid' ? 'uuid' : 'any',
      minLength: keyFormat === 'uuid' ? 36 : keyFormat === 'any' ? 1 : keyFormat.minLength,
      maxLength: keyFormat === 'uuid' ? 36 : KEY_BYTES_MAX,
    },
    retention: promiseTerms(instance.core, overrides),
    fingerprint: {
      parts: ['method', 'path', 'query', 'content-type', 'body'],
      ignored: route.ignore ?? [],
      headers: route.fingerprintHeaders,
      digest: route.digest,
    },
    inFlight: { waitFor: Math.ceil(waitMs(overrides.inFlight, settings.waitMs) / 1000) },
    replay: { marker: 'Idempotent-Replayed', original: 'Original-Request-Id', headers: [...route.kept] },
    notStored: route.refusals === 'release' ? ['4XX', '5XX'] : NOT_STORED,
    errors: CLIENT_ERRORS.map((code) => {
      const { status, message, retryable } = ERRORS[code]
      return { type: problemUri(route.docs, code), code, status, title: message, retryable }
    }),
  }
}
