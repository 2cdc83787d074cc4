import type { Cancellation } from '../store/cancellation.ts'
import type { Duration } from '../duration.ts'
import type { Observe } from '../observe/signal.ts'
import type { Tracing } from '../observe/tracing.ts'
import type { EventInput, Events } from '../outbox/event.ts'
import type { PublishOptions } from '../outbox/publisher.ts'
import type { Alphabet } from '../key/derive.ts'
import type { Jsonify } from '../platform/jsonify.ts'
import type { Row, Store } from '../store/store.ts'
import type { Final } from './final.ts'
import type { Written } from '../stream/written.ts'

/** What a duplicate gets while the first request runs: an error at once, or the answer if it comes in time. */
export type InFlight = 'reject' | { waitFor: Duration }

export interface OnceOptions<Tx, E extends Events> {
  /** The service that owns the keys. */
  namespace: string
  /** The store of the records. The type of `tx` in every handler is inferred from it. */
  store: Store<Tx>
  /** The catalogue of events. Without it, `publish` accepts no type at all. */
  events?: E
  /** How long a retry gets the stored answer. Default '24h' */
  replayFor?: Duration
  /** How long a retry gets 410 after `replayFor` has passed. Then the key is new. Default '7d' */
  goneFor?: Duration
  /** How long events stay after they were sent to every destination, so that `resend` still works. Default '7d' */
  resendFor?: Duration
  /** What a duplicate of a running key gets. Default 'reject' */
  inFlight?: InFlight
  /** Whether a retry after `replayFor` gets 410 or runs again, until `goneFor` has passed. Default 'gone' */
  expired?: 'gone' | 'rerun'
  /** The time limit of an operation. After it, the operation is rolled back, by the server if need be. Default '30s' */
  deadline?: Duration
  /**
   * The time limit of a whole leased operation, its outside calls included. At the limit `signal` aborts and the lease
   * is released. Default '15m'
   */
  endsWithin?: Duration
  /** Development checks. Default 'warn'; 'off' when NODE_ENV is 'production'. */
  guard?: 'off' | 'warn' | 'throw'
  /** Whether this instance removes expired data in the background. Default true */
  sweep?: boolean
  /**
   * Whether processes notify each other of new events (LISTEN, and NOTIFY outside the producers' transactions). If so,
   * the first event after a quiet time does not wait until a relay polls. Default false
   */
  listen?: boolean
  /** Called with each signal, for metrics, logs and alarms. No signal holds a key, a scope or a body. */
  observe?: Observe
  /** Makes spans of operations, events and messages. `otel()` of `effectively-once/otel` returns it. */
  tracing?: Tracing
}

export interface RunOptions<L extends Duration | undefined, I = unknown> {
  /** The owner of the key: a tenant, a user. An explicit 'global' opts out. */
  scope: string
  key: string
  /** What the operation means: the same key with another input is refused. The handler gets the input, too. */
  input: I
  /** If set, the handler may call the outside world, and gets `step` and `commit` instead of `tx`. */
  lease?: L
  inFlight?: InFlight
  expired?: 'gone' | 'rerun'
  deadline?: Duration
  /**
   * Leased only: the time limit of the whole operation, its outside calls included. At the limit `signal` aborts and
   * the lease is released.
   */
  endsWithin?: Duration
  replayFor?: Duration
  goneFor?: Duration
  /** JSON pointers to the parts of `input` that do not change its meaning. */
  ignore?: readonly string[]
  /** Leased only: a text by which an operator finds the operation. It is stored until the key is forgotten. */
  label?: string
  /** Leased only: stores the input under this name, so that `recover` can finish the operation if nobody retries. */
  recover?: string
}

export interface Joined<Tx, E extends Events> {
  run<R, I = unknown>(
    operation: Omit<RunOptions<undefined, I>, 'lease' | 'label' | 'recover' | 'inFlight' | 'endsWithin'>,
    handler: (op: Operation<Tx, E> & WithInput<I>) => Promise<R>,
  ): Promise<Jsonify<R>>
  publish: Operation<Tx, E>['publish']
  /** `once.cancel` as a part of your transaction. If the transaction rolls back, the event is sent at its time. */
  cancel(id: string): Promise<Cancellation>
}

/** What a handler of `run` gets in addition to its operation. */
export interface WithInput<I> {
  /** The input of the operation. Use it for the effect: the fingerprint that retries must match covers this input. */
  readonly input: I
}

interface Base {
  /** The hashed identity of the operation, as a UUID. */
  readonly id: string
  readonly key: string
  readonly scope: string
  /** 1 for the first attempt. */
  readonly attempt: number
  /** Aborts at the deadline or when the lease is lost. */
  readonly signal: AbortSignal
}

/** What an atomic handler gets. */
export interface Operation<Tx, E extends Events> extends Base {
  readonly tx: Tx
  publish<T extends keyof E & string>(type: T, data: EventInput<E[T]>, options?: PublishOptions): Promise<string>
}

/** What a leased handler gets: no `tx`, because no transaction should stay open during an outside call. */
export interface LeasedOperation<Tx, E extends Events> extends Base {
  readonly step: Step<Tx>
  /** The final transaction. It commits only while this attempt holds the lease. The handler must return its result. */
  commit<R>(handler: (op: Operation<Tx, E>) => R | Promise<R>): Promise<Committed<R>>
}

/** What the handler of a recorded stream gets. The stream ends the operation, so there is no `commit`. */
export interface StreamOperation<Tx, E extends Events> extends Base {
  readonly step: Step<Tx>
  /** What earlier attempts have recorded. The handler continues after these bytes. */
  readonly written: Written
  /**
   * Registers the work of the final transaction, which also ends the stream. Both commit, or neither does. A stream that
   * fails does not run it.
   */
  atEnd(work: (op: Operation<Tx, E>) => unknown): void
}

export interface Step<Tx> {
  /** Makes an outside call and records its result, so that a retry resumes after the call. */
  <T>(
    name: string,
    call: (step: { key: string; signal: AbortSignal }) => Promise<T>,
    options?: StepOptions<T>,
  ): Promise<Jsonify<T>>
  /** Does database work that commits together with the record of its step. */
  tx<T>(name: string, work: (step: { tx: Tx }) => Promise<T>, options?: StepTxOptions<Tx, T>): Promise<Jsonify<T>>
}

export interface StepTxOptions<Tx, T> {
  /** Undoes the work if the operation is refused. It commits together with its record. */
  undo?: (step: { tx: Tx; result: Jsonify<T> }) => Promise<unknown>
}

export interface StepOptions<T> {
  /** The longest key that the provider accepts. Default 255 */
  keyLength?: number
  /** The characters that the provider accepts in a key. Default 'hex' */
  keyAlphabet?: Alphabet
  /** false: the provider does not honour keys, so an attempt that dies inside the call has an unknown outcome. */
  keyed?: boolean
  /** Asks the provider whether an interrupted call happened. */
  reconcile?: () => Promise<{ done: T } | 'rerun' | 'stop'>
  /**
   * Undoes the call if the operation ends in a final refusal. `key` is the same in every attempt, and differs from the
   * key of the call.
   */
  undo?: (step: { result: Jsonify<T>; key: string; signal: AbortSignal }) => Promise<unknown>
}

declare const committed: unique symbol
/** Only `commit` returns this type, so a leased handler that forgets to commit does not compile. */
export type Committed<R> = R & { readonly [committed]: true }

export type Op<L, Tx, E extends Events> = L extends Duration ? LeasedOperation<Tx, E> : Operation<Tx, E>
export type Result<L, R> = L extends Duration ? Committed<R> : R
export interface BatchedOptions<I, R, E extends Events> {
  statement: (input: I) => { sql: string; values: unknown[] }
  /** Returns the answer. Return quickly, because every other request of the transaction waits. */
  respond: (rows: Row[], input: I, op: { publish: Operation<never, E>['publish'] }) => R | Promise<R>
  /** The most requests that share a transaction. Default 256 */
  max?: number
}

export type BatchedRun<I> = { scope: string; key: string; input: I; inFlight?: InFlight }

export type RecoverHandlers<Tx, E extends Events> = {
  // oxlint-disable-next-line no-explicit-any -- the input was JSON; only the handler knows its type
  readonly [name: string]: (op: LeasedOperation<Tx, E>, input: any) => Promise<Committed<unknown>>
}

export interface Recovered {
  /** Operations that this call finished. */
  readonly finished: number
  /** Operations that failed again, or that another process took first. */
  readonly left: number
}

export type Verdict =
  /** The call happened, with this result. */
  | { step: string; done: unknown }
  /** The call did not happen: make it again. */
  | { step: string; rerun: true }
  /** The operation is over: every retry gets this refusal. Nothing is undone. */
  | { failed: Final }
  /** The next attempt undoes the finished steps. Then every retry gets this refusal. */
  | { undo: Final }
  /** The step of a refused operation was undone by hand. */
  | { step: string; undone: unknown }
