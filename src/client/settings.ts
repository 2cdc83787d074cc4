import { milliseconds, type Duration } from '../duration.ts'
import { invalid, refuseUnknown, wholeNumber } from '../options.ts'
import * as limits from './limits.ts'
import { memoryStorage } from './memory.ts'
import type {
  BreakerOptions,
  CallStorage,
  CallVerdict,
  ClientOptions,
  HeadersOf,
  PendingCall,
  ReceivedAnswer,
} from './types.ts'
import { judgeOf } from './verdict.ts'

/** The options with their defaults, in milliseconds. */
export interface Settings {
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>
  readonly storage: CallStorage
  readonly attempts: number
  readonly baseMs: number
  readonly maxMs: number
  readonly budget: number
  readonly deadlineMs: number
  readonly timeoutMs: number
  /** Infinity: there is no breaker. */
  readonly failures: number
  readonly restMs: number
  readonly key?: () => string
  readonly header: string
  readonly judge: (answer: ReceivedAnswer) => CallVerdict
  /** The server repeats the key in each answer of a protected route, so that an answer of a proxy can be told apart. */
  readonly echoes: boolean
  readonly policy?: boolean
  readonly retentionMs: number
  readonly rememberMs: number
  readonly secrets: ReadonlySet<string>
  readonly headers?: (call: PendingCall) => HeadersOf | Promise<HeadersOf>
  /** Never throws, and is not awaited. */
  onError(this: void, error: unknown): Promise<void>
}

const KNOWN =
  'fetch storage retry deadline timeout breaker key header server policy retention rememberFor secrets headers onError'
const SECRETS = 'authorization proxy-authorization cookie'

export function settingsOf(options: ClientOptions): Settings {
  refuseUnknown(options, wordsOf(KNOWN), 'idempotentClient')
  const { breaker = {}, header = 'idempotency-key', onError = console.warn, retry = {}, secrets = [] } = options
  const { fetch, server = 'effectively-once', storage = memoryStorage() } = options
  refuseUnknown(retry, wordsOf('attempts base max budget'), 'retry')
  const rests: BreakerOptions = breaker || {}
  refuseUnknown(rests, wordsOf('failures rest'), 'breaker')
  if (!storage?.swap) throw invalid('storage needs add, swap and list')
  if (!globalThis.crypto?.subtle) throw invalid('the page needs https')
  return {
    ...options,
    fetch: (fetch as Settings['fetch'] | undefined) ?? ((url, init) => globalThis.fetch(url, init)),
    storage,
    attempts: wholeNumber('attempts', retry.attempts ?? limits.ATTEMPTS_DEFAULT, limits.ATTEMPTS_MAX),
    baseMs: time(retry, 'base', limits.PAUSE_MS_DEFAULT),
    maxMs: time(retry, 'max', limits.PAUSE_MS_MAX_DEFAULT),
    budget: wholeNumber('budget', retry.budget ?? limits.BUDGET_TOKENS_DEFAULT, limits.BUDGET_TOKENS_MAX, 0),
    deadlineMs: time(options, 'deadline', limits.CALL_MS_DEFAULT),
    timeoutMs: time(options, 'timeout', limits.ATTEMPT_MS_DEFAULT),
    failures: breaker
      ? wholeNumber('failures', breaker.failures ?? limits.FAILURES_DEFAULT, limits.FAILURES_MAX)
      : Infinity,
    restMs: time(rests, 'rest', limits.REST_MS_DEFAULT),
    header,
    judge: judgeOf(server),
    echoes: server === 'effectively-once' || server === 'stripe',
    retentionMs: time(options, 'retention', limits.RETENTION_MS_DEFAULT, limits.RETENTION_MS_MAX),
    rememberMs: time(options, 'rememberFor', limits.REMEMBER_MS_DEFAULT, limits.RETENTION_MS_MAX),
    secrets: wordsOf([SECRETS, header, ...secrets].join(' ').toLowerCase()),
    async onError(error) {
      try {
        await (onError(error) as unknown)
      } catch {}
    },
  }
}

function wordsOf(text: string): ReadonlySet<string> {
  return new Set(text.split(' '))
}

export function time<Name extends string>(
  options: { readonly [option in Name]?: Duration },
  option: Name,
  fallback: number,
  max: number = limits.WAIT_MS_MAX,
): number {
  return milliseconds(options[option], fallback, { option, min: limits.WAIT_MS_MIN, max })
}
