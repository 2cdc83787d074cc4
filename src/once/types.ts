import type { DeadLetters } from '../dead-letter/dead-letters.ts'
import type { Redrive } from '../dead-letter/redrive/types.ts'
import type { Duration } from '../duration.ts'
import type { Observe } from '../observe/signal.ts'
import type { EventInput, Events } from '../outbox/event.ts'
import type { PublishOptions } from '../outbox/publisher.ts'
import type { Relay, RelayOptions } from '../outbox/relay.ts'
import type { Alphabet } from '../key/derive.ts'
import type { EventsOf, PulledSource } from '../source/source.ts'
import type { Row, Store } from '../store/store.ts'
import type { Consumer, ConsumerOptions, Handlers } from './consumer-types.ts'
import type { Final } from './final.ts'
import type { Parked } from './parked-types.ts'
import type { SweptAll } from './sweeper.ts'

/** What a duplicate gets while the first one runs: a refusal at once, or the answer if it comes in time. */
export type InFlight = 'reject' | { waitFor: Duration }

export interface OnceOptions<Tx, E extends Events> {
  /** Which service owns the keys. */
  namespace: string
  /** Where records live. The type of `tx` in every handler is inferred from it. */
  store: Store<Tx>
  /** The catalogue of events; without it `publish` accepts no type at all. */
  events?: E
  /** How long a retry is replayed. Default '24h' */
  replayFor?: Duration
  /** How long after that a retry is 410; then the key is new. Default '7d' */
  goneFor?: Duration
  /** How long events that every destination was sent stay, to be sent again. Default '7d' */
  resendFor?: Duration
  /** Default 'reject' */
  inFlight?: InFlight
  /** What a retry after `replayFor` gets until `goneFor` has passed. Default 'gone' */
  expired?: 'gone' | 'rerun'
  /** An operation past it is rolled back, by the server if need be. Default '30s' */
  deadline?: Duration
  /** Leased operations: the whole of one, its outside calls included. Then `signal` aborts and the lease is let go. Default '15m' */
  endsWithin?: Duration
  /** Development checks. Default 'warn'; 'off' when NODE_ENV is 'production'. */
  guard?: 'off' | 'warn' | 'throw'
  /** Whether this instance sweeps by itself, in the background. Default true */
  sweep?: boolean
  /**
   * Processes tell each other of new events (LISTEN, and NOTIFY outside the producers' transactions), so that the first
   * one after a quiet time does not wait for a relay's next look. Default false
   */
  listen?: boolean
  observe?: Observe
}

export interface RunOptions<L extends Duration | undefined> {
  /** Whose key it is: a tenant, a user. An explicit 'global' opts out. */
  scope: string
  key: string
  /** What the operation means: the same key with another input is refused. */
  input: unknown
  /** Present: the handler calls the outside world and has `step` and `commit` instead of `tx`. */
  lease?: L
  inFlight?: InFlight
  expired?: 'gone' | 'rerun'
  deadline?: Duration
  /** Leased only: the whole operation, its outside calls included. Then `signal` aborts and the lease is let go. */
  endsWithin?: Duration
  replayFor?: Duration
  goneFor?: Duration
  /** JSON pointers of `input` that do not change its meaning. */
  ignore?: readonly string[]
  /** Leased only: seals the input under this name, so that `recover` can finish the operation when nobody retries. */
  recover?: string
}

export interface Once<Tx, E extends Events> {
  run<R, const L extends Duration | undefined = undefined>(
    operation: RunOptions<L>,
    handler: (op: Op<L, Tx, E>) => Promise<Result<L, R>>,
  ): Promise<Jsonify<R>>
  /** Your own open transaction, the same two verbs. */
  join(tx: Tx): Joined<Tx, E>
  /** For effects that are one statement per request: many requests share one transaction and one fsync. */
  batched<I, R>(options: BatchedOptions<I, R, E>): (operation: BatchedRun<I>) => Promise<Jsonify<R>>
  /** Sends what was published to a sink: at least once, in commit order per aggregate. `start()` it. */
  relay(options: RelayOptions): Relay
  /**
   * Sends events again that were sent already, each under a broker id of its own: the broker would drop a known one. The
   * event's id stays, so an inbox still applies it once. Answers how many; a relay sends them.
   */
  resend(events: ResendOptions): Promise<number>
  /** Events that a relay gave up: look at them, send them after all, or leave them out. */
  readonly parked: Parked
  /** Forgets a destination nobody sends to any more: until then nothing that it was not sent is dropped. */
  forget(options: { destination: string }): Promise<void>
  /**
   * Applies each event of a source once: its effect, the events it publishes and the mark that it was applied commit
   * together, then the broker is told. `start()` it, or mount it with `webhook()`.
   */
  consumer<M, const L extends Duration | undefined = undefined>(
    name: string,
    options: ConsumerOptions<M, L>,
    on: Handlers<NoInfer<M>, L, Tx, E>,
  ): Consumer
  /** Your own events as a source: no broker, no relay. */
  readonly outbox: PulledSource<EventsOf<E>>
  /** Messages that consumers set aside. */
  readonly deadLetters: DeadLetters
  /** Runs dead letters again, under their own ids: planned first, with a canary, a rate, a pause and an audit. */
  readonly redrive: Redrive
  /** Takes lapsed leased operations over and runs them to the end. */
  recover(handlers: RecoverHandlers<Tx, E>, options?: { limit?: number }): Promise<Recovered>
  /** An operator's word on an operation whose outcome is unknown. False when it is not unknown (any more). */
  settle(operation: { scope: string; key: string }, verdict: Verdict): Promise<boolean>
  /** Operations whose outcome is unknown, oldest first, by their hashed identity. */
  unknown(options?: { limit?: number }): Promise<readonly { id: string; sinceMs: number }[]>
  /** Applies what is missing to the database: safe when many processes do it at once. */
  migrate(options?: MigrateOptions): Promise<{ from: number; to: number }>
  sweep(options?: { limit?: number; signal?: AbortSignal }): Promise<SweptAll>
  close(): Promise<void>
}

export interface MigrateOptions {
  /** The namespace that gets what was there before namespaces were told apart. Needed only where several left something. */
  adopt?: string
}

export interface ResendOptions {
  /** The name of a sink. Default: every destination there is */
  destination?: string
  /** Published from then on. */
  since: Date
  /** Published before then. Default: now */
  until?: Date
  type?: string
  /** The id of one aggregate. */
  aggregate?: string
}

export interface Joined<Tx, E extends Events> {
  run<R>(
    operation: Omit<RunOptions<undefined>, 'lease' | 'recover' | 'inFlight' | 'endsWithin'>,
    handler: (op: Operation<Tx, E>) => Promise<R>,
  ): Promise<Jsonify<R>>
  publish: Operation<Tx, E>['publish']
}

interface Base {
  /** The hashed identity, as a UUID. */
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

/** What a leased handler gets: no `tx`, because none can be held open across an outside call. */
export interface LeasedOperation<Tx, E extends Events> extends Base {
  readonly step: Step<Tx>
  /** The final transaction, fenced. Its result is what the handler must return. */
  commit<R>(handler: (op: Operation<Tx, E>) => R | Promise<R>): Promise<Committed<R>>
}

export interface Step<Tx> {
  /** An outside call whose result is recorded: a retry resumes after it. */
  <T>(
    name: string,
    call: (step: { key: string; signal: AbortSignal }) => Promise<T>,
    options?: StepOptions<T>,
  ): Promise<Jsonify<T>>
  /** Database work committed together with its step. */
  tx<T>(name: string, work: (step: { tx: Tx }) => Promise<T>): Promise<Jsonify<T>>
}

export interface StepOptions<T> {
  /** The longest key the provider takes. Default 255 */
  keyLength?: number
  /** The characters the provider takes. Default 'hex' */
  keyAlphabet?: Alphabet
  /** false: the provider does not honour a key, so an attempt that died inside the call has an unknown outcome. */
  keyed?: boolean
  /** Asks the provider what became of a call that may have happened. */
  reconcile?: () => Promise<{ done: T } | 'rerun' | 'stop'>
}

declare const committed: unique symbol
/** Only `commit` makes one: a leased handler that forgets to commit does not compile. */
export type Committed<R> = R & { readonly [committed]: true }

export type Op<L, Tx, E extends Events> = L extends Duration ? LeasedOperation<Tx, E> : Operation<Tx, E>
export type Result<L, R> = L extends Duration ? Committed<R> : R
/** The operation's type for your own service functions. */
export type OpOf<O> = O extends Once<infer Tx, infer E> ? Operation<Tx, E> : never
export type TxOf<O> = O extends Once<infer Tx, infer _E> ? Tx : never

export interface BatchedOptions<I, R, E extends Events> {
  statement: (input: I) => { sql: string; values: unknown[] }
  /** Every other request of the transaction waits for it: answer at once, or soon. */
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
  /** Operations that were finished here. */
  readonly finished: number
  /** Operations that failed again, or that another process was quicker to take. */
  readonly left: number
}

export type Verdict =
  /** The call happened, with this result. */
  | { step: string; done: unknown }
  /** The call did not happen: make it again. */
  | { step: string; rerun: true }
  /** The operation is over: every retry gets this refusal. */
  | { failed: Final }

/** What JSON makes of a type: the first caller gets the decoded record too, so a Date is a string on day one. */
export type Jsonify<T> = T extends { toJSON(): infer J }
  ? Jsonify<J>
  : T extends string | number | boolean | null | undefined | void
    ? T
    : T extends bigint | symbol | ((...args: never[]) => unknown)
      ? never
      : T extends readonly unknown[]
        ? { -readonly [K in keyof T]: Jsonify<T[K]> }
        : T extends object
          ? {
              [
                K in keyof T as K extends symbol ? never : T[K] extends (...args: never[]) => unknown ? never : K
              ]: Jsonify<T[K]>
            }
          : T
