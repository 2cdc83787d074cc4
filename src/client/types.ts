import type { Duration } from '../duration.ts'

/** What an answer says about its call. */
export type CallVerdict =
  /** The handler's answer: a success (below 400) or a refusal. */
  | 'answer'
  /** Another attempt with this key is running. */
  | 'in-flight'
  /** Nothing is known, or nothing was done. The same request may succeed later. */
  | 'retry'
  /** The key or the body is not accepted, so nothing ran. */
  | 'key-invalid'
  /** The operation is done, but the server did not keep its answer. */
  | 'unreplayable'
  /** The server saw this key with another request. */
  | 'mismatch'
  /** The server no longer has the answer of this key. */
  | 'gone'
  /** The server does not know the outcome, and a retry will not tell. */
  | 'outcome-unknown'

/** An answer as a verdict sees it. */
export interface ReceivedAnswer {
  readonly status: number
  readonly headers: Headers
  /** The parsed body of an error with a JSON body, or else undefined. */
  readonly problem: unknown
}

/** How a server says that a key is running, was used for another request, or is gone. */
export type ServerKind = 'effectively-once' | 'stripe' | 'ietf' | ((answer: ReceivedAnswer) => CallVerdict)

/**
 * Where calls are kept until their outcome is known. A call is a text with a unique name. When a method resolves, its
 * change must be as durable as the storage promises.
 */
export interface CallStorage {
  /** Adds a call, unless one of this name exists. Resolves to the text that is stored now. Must be atomic. */
  add(name: string, text: string): Promise<string>
  /** Replaces a call, or removes it (`null`), but only if its text is still `from`. Must be atomic. */
  swap(name: string, from: string, to: string | null): Promise<boolean>
  /** The texts of all calls, in any order. */
  list(): Promise<readonly string[]>
}

export interface RetryOptions {
  /** How often one call is sent at most (8). A wait for a running attempt is not counted. */
  attempts?: number
  /** The first pause is random, up to this time (`'200ms'`). The bound doubles for each attempt. */
  base?: Duration
  /** The largest bound of a pause (`'20s'`). */
  max?: Duration
  /** The tokens of all retries (100). A retry takes one, and an answer that is not retried gives a fifth back. */
  budget?: number
}

export interface BreakerOptions {
  /** After this many failures in a row nothing is sent to the origin (10). */
  failures?: number
  /** How long the breaker waits before one call tries the origin again (`'5s'`). */
  rest?: Duration
}

/**
 * What the option `fetch` gets. Platforms and libraries have classes of their own for headers and bodies, whose types do
 * not accept each other.
 */
interface SentInit {
  method?: string
  // oxlint-disable-next-line no-explicit-any -- see above
  headers?: any
  // oxlint-disable-next-line no-explicit-any -- see above
  body?: any
  signal?: AbortSignal
}

/** The part of an answer that the client uses. */
interface FetchedAnswer {
  readonly status: number
  readonly statusText: string
  readonly url: string
  readonly headers: { get(name: string): string | null }
  arrayBuffer(): Promise<ArrayBuffer>
  json(): Promise<unknown>
}

export interface ClientOptions {
  /** Sends one request. The default is the global `fetch`. The `fetch` of undici fits, too. */
  fetch?: (url: string, init: SentInit) => Promise<FetchedAnswer>
  /** Where open calls are kept. The default is the memory of this process, which survives nothing. */
  storage?: CallStorage
  retry?: RetryOptions
  /** The time limit of a call with all its attempts (`'2m'`). */
  deadline?: Duration
  /** The time limit of one attempt (`'30s'`). */
  timeout?: Duration
  /** Stops sending to an origin that fails. `false`: never. */
  breaker?: BreakerOptions | false
  /** Makes the key of a new call. The default is a random UUID. */
  key?: () => string
  /** The name of the header that carries the key (`Idempotency-Key`). */
  header?: string
  /** What the server's errors look like. The default is `'effectively-once'`. */
  server?: ServerKind
  /** `false`: do not read `/.well-known/idempotency-key`, and use `retention`. */
  policy?: boolean
  /** How long a server without a published policy remembers a key (`'24h'`). The client does not retry later. */
  retention?: Duration
  /** How long the name of a call that succeeded is remembered (`'24h'`). */
  rememberFor?: Duration
  /** Headers that are never stored, besides Authorization, Proxy-Authorization and Cookie. */
  secrets?: readonly string[]
  /** Headers for each attempt, such as a fresh token. They are not stored. */
  headers?: (call: PendingCall) => HeadersOf | Promise<HeadersOf>
  /** Gets the error if the storage fails after an answer, or holds a call that cannot be read (`console.warn`). */
  onError?: (error: unknown) => void
}

export type HeadersOf = Readonly<Record<string, string>> | Headers

export interface CallOptions {
  /**
   * What the user wants, such as `'pay order 7'`. Calls with the same name are one call, in every tab and process that
   * shares the storage. Without a name each call is a new one.
   */
  name?: string
  /** The key, if your program already has one. */
  key?: string
  /** The time limit of this call with all its attempts. */
  deadline?: Duration
  /** Stops waiting. A call that was sent stays pending, because its outcome is unknown. */
  signal?: AbortSignal
}

/** The answer of a call. Its body was received completely. */
export interface CallResponse extends Response {
  /** Whether the server repeated the answer of an earlier attempt. */
  readonly replayed: boolean
  /** The key of the call. */
  readonly key: string
}

/** A call whose outcome is not known. */
export interface PendingCall {
  readonly name: string
  readonly key: string
  readonly method: string
  readonly url: string
  /** When the key was made, in milliseconds since 1970. */
  readonly since: number
  /** Whether this client is sending the call at the moment. */
  readonly running: boolean
  /** The code of the error that ended the retries. `resume` does not send such a call: look its outcome up. */
  readonly stopped: string | undefined
}

/** What became of a call that was resumed: an answer or an error. */
export interface ResumedCall {
  readonly name: string
  readonly key: string
  readonly response?: CallResponse
  readonly error?: unknown
}

/** The state of a name. `refused`: the server did not store the answer, such as a 401, so the key may be sent again. */
export type CallState = 'none' | 'pending' | 'stopped' | 'done' | 'refused'

export interface IdempotentClient {
  /** Like the global `fetch`, for one logical call with one key. GET, HEAD and OPTIONS are sent once, without a key. */
  fetch(input: string | URL | Request, init?: RequestInit, options?: CallOptions): Promise<CallResponse>
  /** The calls whose outcome is not known, oldest first, of every process that shares the storage. */
  pending(): Promise<readonly PendingCall[]>
  /** Sends the pending calls again, with their keys, until they end. Stopped calls are only listed, with their error. */
  resume(options?: { name?: string; signal?: AbortSignal }): Promise<readonly ResumedCall[]>
  /** What is stored under a name. */
  state(name: string): Promise<CallState>
  /**
   * Forgets a name: its next call gets a new key. For a pending call, look its outcome up first. Resolves to false if
   * nothing was stored under the name.
   */
  forget(name: string): Promise<boolean>
}
