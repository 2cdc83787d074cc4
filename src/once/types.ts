import type { DeadLetters } from '../dead-letter/dead-letters.ts'
import type { Redrive } from '../dead-letter/redrive/types.ts'
import type { Duration } from '../duration.ts'
import type {
  BatchedOptions,
  BatchedRun,
  Joined,
  Op,
  Operation,
  Recovered,
  RecoverHandlers,
  Result,
  RunOptions,
  Verdict,
  WithInput,
} from '../operation/types.ts'
import type { Events } from '../outbox/event.ts'
import type { Relay, RelayOptions } from '../outbox/relay.ts'
import type { Jsonify } from '../platform/jsonify.ts'
import type { EventsOf, PulledSource } from '../source/source.ts'
import type { Consumer, ConsumerOptions, Handlers } from '../consumer/types.ts'
import type { Cancellation } from '../store/cancellation.ts'
import type { Closed, CloseOptions } from './close.ts'
import type { Erased, EraseOptions } from './erase-types.ts'
import type { Operations } from './operations-types.ts'
import type { Parked } from './parked-types.ts'
import type { Health, Readiness, Status } from './status.ts'
import type { SweptAll } from './sweeper.ts'

export interface Once<Tx, E extends Events> {
  /** Runs the handler once per key: its effect, its events and its answer commit together. A retry gets the answer. */
  run<R, const L extends Duration | undefined = undefined, I = unknown>(
    operation: RunOptions<L, I>,
    handler: (op: Op<L, Tx, E> & WithInput<I>) => Promise<Result<L, R>>,
  ): Promise<Jsonify<R>>
  /** Returns `run` and `publish` that work inside your own open transaction. */
  join(tx: Tx): Joined<Tx, E>
  /** Runs effects of one SQL statement each: concurrent requests share one transaction and one fsync. */
  batched<I, R>(options: BatchedOptions<I, R, E>): (operation: BatchedRun<I>) => Promise<Jsonify<R>>
  /** Creates a relay, which sends events to a sink at least once, in commit order per aggregate. Call `start()`. */
  relay(options: RelayOptions): Relay
  /**
   * Sends events again that were already sent. Each event gets a new broker id, because the broker would drop a known
   * id. The event's own id stays the same, so an inbox still applies the event once. Returns how many events were
   * marked. A relay sends them, except those that its filter ignores.
   */
  resend(events: ResendOptions): Promise<number>
  /**
   * Cancels a delayed event by the id that `publish` returned. `'cancelled'`: no relay sends the event, and no consumer
   * of the outbox applies it. `'due'`: its time has come, so it was sent or will be. `'ordered'`: consumers wait for an
   * ordered event, so it cannot be cancelled. `'unknown'`: this namespace has no delayed event with this id. To cancel
   * together with an effect, use `join(tx).cancel(id)`.
   */
  cancel(id: string): Promise<Cancellation>
  /** Events that a relay gave up on: list them, release them to be sent again, or skip them. */
  readonly parked: Parked
  /** The destinations that events are sent to. */
  readonly destinations: Destinations
  /** @deprecated Use `destinations.remove(name)`. The next minor version removes `forget`. */
  forget(options: { destination: string }): Promise<void>
  /**
   * Creates a consumer, which applies each event of a source once. The effect, the new events and the inbox row commit
   * together. Then the consumer acknowledges the message. Call `start()`, or mount the consumer with `webhook()`.
   */
  consumer<M, const L extends Duration | undefined = undefined>(
    name: string,
    options: ConsumerOptions<M, L>,
    on: Handlers<NoInfer<M>, L, Tx, E>,
  ): Consumer
  /** Your own events as the source of a consumer. This source needs no broker and no relay. */
  readonly outbox: PulledSource<EventsOf<E>>
  /** Messages that consumers gave up on: list, export, import or discard them. */
  readonly deadLetters: DeadLetters
  /** Runs dead letters again, under their own ids, with a plan, a canary, a rate limit and an audit. */
  readonly redrive: Redrive
  /** Leased operations that are not completed: find them, and finish, settle or release them. */
  readonly operations: Operations<Tx, E>
  /** @deprecated Use `operations.recover(handlers)`. The next minor version removes `recover`. */
  recover(handlers: RecoverHandlers<Tx, E>, options?: { limit?: number }): Promise<Recovered>
  /** @deprecated Use `operations.settle(operation, verdict)`. The next minor version removes `settle`. */
  settle(operation: { scope: string; key: string }, verdict: Verdict): Promise<boolean>
  /** @deprecated Use `operations.list({ state: 'unknown' })`. The next minor version removes `unknown`. */
  unknown(options?: { limit?: number }): Promise<readonly { id: string; sinceMs: number }[]>
  /** Returns lag, parked events, dead letters, open operations and table sizes, by a few cheap statements. */
  status(): Promise<Status>
  /** Returns the problems that an operator should look at. For alarms, not for probes that restart a process. */
  healthy(): Promise<Health>
  /**
   * Returns whether this instance can serve requests: it is open, the schema is migrated, and the database answers.
   * Never rejects. For readiness probes.
   */
  ready(): Promise<Readiness>
  /** Applies missing migrations to the database. Many processes may call it at once. */
  migrate(options?: MigrateOptions): Promise<{ from: number; to: number }>
  /** Removes expired records and old events. An instance does this in the background, unless `sweep` is false. */
  sweep(options?: { limit?: number; signal?: AbortSignal }): Promise<SweptAll>
  /**
   * Erases what is stored for a person: answers, steps, stored inputs, dead letters, and the sent events of the named
   * aggregates. A late retry of an erased operation gets ONCE_GONE and never runs again. Nothing that still runs or
   * waits is erased: it is listed.
   */
  erase(options: EraseOptions): Promise<Erased>
  /**
   * Stops everything that this instance started: consumers, operations, then relays. New work is refused with
   * ONCE_CLOSED. Running work may finish, and is cut off when the time is over. At the end the store is closed, but not
   * your client.
   */
  close(options?: CloseOptions): Promise<Closed>
}

export interface Destinations {
  /** The names of the sinks that a relay has sent to. */
  list(): Promise<readonly string[]>
  /** Removes a destination. Until you do, the outbox keeps every event that this destination has not received. */
  remove(name: string): Promise<void>
}

export interface MigrateOptions {
  /**
   * The namespace that gets the rows that were written before namespaces existed. Needed only if several services have
   * such rows.
   */
  adopt?: string
}

export interface ResendOptions {
  /** The name of a sink. Default: every destination */
  destination?: string
  /** Only events that were published at this time or later. */
  since: Date
  /** Only events that were published before this time. Default: now */
  until?: Date
  type?: string
  /** The id of one aggregate. */
  aggregate?: string
}

/** The type of an operation, for your own service functions. */
export type OpOf<O> = O extends Once<infer Tx, infer E> ? Operation<Tx, E> : never
/** The type of `tx`, for your own service functions. */
export type TxOf<O> = O extends Once<infer Tx, infer _E> ? Tx : never
