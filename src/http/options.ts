import type { Duration } from '../duration.ts'
import type { Answer } from '../lifecycle/answer.ts'
import type { InFlight } from '../operation/types.ts'
import { onceError } from '../errors.ts'
import { type HeaderPairs, spokenHeaders } from './headers.ts'

/** What `idempotency(once, options)` takes. `Req` is the request as the framework knows it. */
export interface IdempotencyOptions<Req> {
  /** Whose key it is. Auth runs first; an empty scope is an error, never 'global'. */
  scope: 'global' | ((request: Req) => string)
  /** Whether a protected request must carry a key. Default true; without one it runs as if its key were unique. */
  required?: boolean
  /** Default 'Idempotency-Key' */
  header?: string
  /** The methods that are protected; others pass by untouched. Default POST and PATCH */
  methods?: readonly string[]
  /** Which keys are taken: any of 1 to 255 visible ASCII characters (default), UUIDs, or a minimal length. */
  keyFormat?: 'any' | 'uuid' | { minLength: number }
  inFlight?: InFlight
  /** JSON pointers left out of the fingerprint. */
  ignore?: readonly `/${string}`[]
  fingerprint?: {
    /** @deprecated Its place is `ignore`, beside `fingerprint`. It goes with the next minor version. */
    ignore?: readonly `/${string}`[]
    /** Headers that change the meaning of a request, such as an API version. */
    headers?: readonly string[]
    /** true: a `Content-Digest` or `Repr-Digest` header, which must be right, stands for the body. */
    digest?: boolean
  }
  /** How many bytes a body may have. It is read whole before anything is claimed. Default 8 MiB */
  bodyLimit?: number
  /** Added to the headers a replay carries. */
  keepHeaders?: readonly string[]
  /** true: a 4xx answer commits with the rows and events the handler wrote, instead of alone. */
  keep4xx?: boolean
  /**
   * 'store' (default): a 4xx answer is stored alone, and a retry gets it again. 'release': it is not stored, and a retry
   * runs; `throw final(…)` is stored all the same. Not together with `keep4xx`.
   */
  refusals?: 'store' | 'release'
  /** What a retry after `replayFor` gets until `goneFor` has passed. */
  expired?: 'gone' | 'rerun'
  deadline?: Duration
  /**
   * With `lease`: the time limit of the whole operation, its outside calls included. At the limit `signal` aborts and
   * the lease is released.
   */
  endsWithin?: Duration
  replayFor?: Duration
  goneFor?: Duration
  /**
   * Answers that come in pieces without a Content-Length: held up to the cap ('buffer'), or ONCE_STREAM ('refuse').
   * By default pieces are held and an event stream is refused, because it has no end to wait for.
   */
  streams?: 'buffer' | 'refuse'
  /** Called before a stored answer is given out. Returning an answer sends that one instead; throwing is an error. */
  onReplay?: (request: Req, record: ReplayRecord) => Refusal | void | Promise<Refusal | void>
  /** The version of this route's answers. An answer stored by another version is upgraded, or gone. */
  version?: string
  upgrade?: (record: ReplayRecord) => Refusal | Promise<Refusal>
  /** AES-256-GCM at rest. The first key seals, all of them open. */
  encrypt?: { keys: readonly { id: string; secret: Uint8Array }[] }
  /** The page whose anchors explain the problem types. */
  docs?: string
}

/** What one route may say, beside what all share. */
export type RouteOptions<Req, L extends Duration | undefined = undefined> = Partial<IdempotencyOptions<Req>> & {
  /** Present: the handler calls the outside world and has `step` and `commit` instead of `tx`. */
  lease?: L
}

/** A stored answer as hooks see it. */
export interface ReplayRecord {
  readonly key: string
  readonly scope: string
  readonly status: number
  readonly headers: HeaderPairs
  readonly body: Uint8Array | null
  /** The version that stored it; null when it had none. */
  readonly version: string | null
}

/** An answer in the words of a hook. */
export interface Refusal {
  status: number
  headers?: HeaderPairs
  body?: Uint8Array | string | null
}

const encoder = new TextEncoder()

export function answerOfRefusal({ status, headers = [], body = null }: Refusal): Answer {
  if (!Number.isInteger(status) || status < 200 || status > 599)
    throw onceError('ONCE_ANSWER_INVALID', { detail: `A hook answered with the status ${status}` })
  const bytes = typeof body === 'string' ? encoder.encode(body) : body
  return { status, headers: spokenHeaders(headers), body: bytes, kept: true }
}
