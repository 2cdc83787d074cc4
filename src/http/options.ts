import type { Duration } from '../duration.ts'
import type { Answer } from '../lifecycle/answer.ts'
import type { InFlight } from '../operation/types.ts'
import { onceError } from '../errors.ts'
import { type HeaderPairs, spokenHeaders } from './headers.ts'
import type { Events } from '../outbox/event.ts'
import type { RecoverRoute } from './recover-types.ts'
import type { OnError } from './report.ts'

/** What `idempotency(once, options)` takes. `Req` is the request as the framework knows it. */
export interface IdempotencyOptions<Req> {
  /** The owner of the key. Authentication must run first. An empty scope is an error, never 'global'. */
  scope: 'global' | ((request: Req) => string)
  /** Whether a protected request must carry a key. If false, a request without a key runs each time. Default true */
  required?: boolean
  /** The header that carries the key. Default 'Idempotency-Key' */
  header?: string
  /** The methods that are protected; others pass through untouched. Default POST and PATCH */
  methods?: readonly string[]
  /** Which keys are accepted: any 1 to 255 printable ASCII characters (default), UUIDs, or a minimum length. */
  keyFormat?: 'any' | 'uuid' | { minLength: number }
  inFlight?: InFlight
  /** JSON pointers to the parts of the body that the fingerprint leaves out. */
  ignore?: readonly `/${string}`[]
  fingerprint?: {
    /**
     * @deprecated Use the option `ignore` beside `fingerprint`. The next minor version removes `fingerprint.ignore`.
     */
    ignore?: readonly `/${string}`[]
    /** Headers that change the meaning of a request, such as an API version. */
    headers?: readonly string[]
    /**
     * true: a `Content-Digest` or `Repr-Digest` header replaces the body in the fingerprint. A wrong digest is refused.
     */
    digest?: boolean
  }
  /** The most bytes a body may have. The body is read whole before the key is claimed. Default 8 MiB */
  bodyLimit?: number
  /** Headers to replay in addition to the default list. */
  keepHeaders?: readonly string[]
  /** true: a 4xx answer commits together with the handler's rows and events. By default only the answer is stored. */
  keep4xx?: boolean
  /**
   * 'store' (default): a 4xx answer is stored without its rows, and a retry gets it again. 'release': a 4xx answer is
   * not stored, and a retry runs; only `throw final(…)` is stored. It cannot be combined with `keep4xx`.
   */
  refusals?: 'store' | 'release'
  /** Whether a retry after `replayFor` gets 410 or runs again, until `goneFor` has passed. Default 'gone' */
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
   * What to do with streamed answers, which have no Content-Length. 'buffer': they are held, up to 8 MiB. 'refuse':
   * they fail with ONCE_STREAM. By default they are held, but event streams are refused, because an event stream never
   * ends. A route may also set 'record', together with `lease`.
   */
  streams?: 'buffer' | 'refuse'
  /** Called before each replay. An answer that it returns is sent instead. If it throws, the request fails. */
  onReplay?: (request: Req, record: ReplayRecord) => Refusal | void | Promise<Refusal | void>
  /** The version of this route's answers. Answers of another version go through `upgrade`, or are gone (410). */
  version?: string
  upgrade?: (record: ReplayRecord) => Refusal | Promise<Refusal>
  /** Encrypts stored answers with AES-256-GCM. The first key encrypts, and every key decrypts. */
  encrypt?: { keys: readonly { id: string; secret: Uint8Array }[] }
  /**
   * Called with every error of this package that is answered with 5xx, and its cause. By default the framework's
   * logger or `console.error` logs such errors, at most once a second for each route and code. The log omits the
   * cause, because a cause may quote the request.
   */
  onError?: OnError<Req>
  /**
   * Who answers errors of this package with status 500 or higher. 'problem' (default): the client gets a problem
   * document. 'framework': only the error handler of the framework gets the error, which has `status` and `code`.
   */
  errors?: 'problem' | 'framework'
  /**
   * With `lease`: a text by which an operator finds the operation, such as an order number. Up to 200 characters of it
   * are stored until the key is forgotten.
   */
  label?: (request: Req) => string | undefined | Promise<string | undefined>
  /** The page whose anchors explain the problem types. */
  docs?: string
}

/** The options of one route, in addition to those of all routes. */
// oxlint-disable no-explicit-any -- each adapter says the types of its instance
export type RouteOptions<Req, L extends Duration | undefined = undefined, Tx = any, E extends Events = any> = Partial<
  IdempotencyOptions<Req>
> & {
  /** If set, the handler may call the outside world, and gets `step` and `commit` instead of `tx`. */
  lease?: L
  /** The route's name for operators. `recover` requires it. Default: the pattern of the route */
  name?: string
  /**
   * With `lease` and `name`: stores the request, without its headers, until its operation has ended. If the client never
   * comes back, this function finishes the operation, within a minute or when `once.operations.recover()` is called.
   */
  recover?: RecoverRoute<Tx, E>
}
// oxlint-enable no-explicit-any

/** The options of a route that records its streams. Its handler gets a `StreamOperation`. */
export type StreamRouteOptions<Req> = Omit<RouteOptions<Req, Duration>, 'recover' | 'streams' | 'lease'> & {
  /** Commits each chunk before it is sent. A retry continues where its client stopped. */
  streams: 'record'
  lease: Duration
  /**
   * After a crash, the next attempt calls the handler again, with the recorded bytes in `op.written`, and the handler
   * appends. Default false: the stream ends as failed.
   */
  resume?: boolean
}

/** A stored answer as hooks see it. */
export interface ReplayRecord {
  readonly key: string
  readonly scope: string
  readonly status: number
  readonly headers: HeaderPairs
  readonly body: Uint8Array | null
  /** The route's version when the answer was stored; null if the route had none. */
  readonly version: string | null
}

/** An answer that a hook returns. */
export interface Refusal {
  status: number
  headers?: HeaderPairs
  body?: Uint8Array | string | null
}

const encoder = new TextEncoder()

export function answerOfRefusal({ status, headers = [], body = null }: Refusal): Answer {
  if (!Number.isInteger(status) || status < 200 || status > 599)
    throw onceError('ONCE_ANSWER_INVALID', { detail: `A hook returned the invalid status ${status}` })
  const bytes = typeof body === 'string' ? encoder.encode(body) : body
  if (bytes !== null && !(bytes instanceof Uint8Array))
    throw onceError('ONCE_ANSWER_INVALID', { detail: 'A hook returned a body that is neither text nor bytes' })
  return { status, headers: spokenHeaders(headers), body: bytes, kept: true }
}
