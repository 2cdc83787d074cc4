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
import type { Closed, CloseOptions } from './close.ts'
import type { Parked } from './parked-types.ts'
import type { SweptAll } from './sweeper.ts'

export interface Once<Tx, E extends Events> {
  run<R, const L extends Duration | undefined = undefined, I = unknown>(
    operation: RunOptions<L, I>,
    handler: (op: Op<L, Tx, E> & WithInput<I>) => Promise<Result<L, R>>,
  ): Promise<Jsonify<R>>
  /** `run` and `publish` inside your own open transaction. */
  join(tx: Tx): Joined<Tx, E>
  /** For effects that are one statement per request: many requests share one transaction and one fsync. */
  batched<I, R>(options: BatchedOptions<I, R, E>): (operation: BatchedRun<I>) => Promise<Jsonify<R>>
  /** Sends published events to a sink: at least once, in commit order per aggregate. Call `start()` on it. */
  relay(options: RelayOptions): Relay
  /**
   * Sends events again that were sent already. Each gets a new broker id, because the broker would drop a known one.
   * The event's id stays, so an inbox still applies the event once. A relay sends them. Returns how many there are.
   */
  resend(events: ResendOptions): Promise<number>
  /** Events that a relay gave up: look at them, send them after all, or leave them out. */
  readonly parked: Parked
  /** Where events are sent. */
  readonly destinations: Destinations
  /** @deprecated Its name is `destinations.remove(name)`. It goes with the next minor version. */
  forget(options: { destination: string }): Promise<void>
  /**
   * Applies each event of a source once. The effect, the events that it publishes and the inbox row commit together,
   * and then the consumer acknowledges the message. Call `start()`, or mount the consumer with `webhook()`.
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
  /**
   * Records what an operator found out about an operation whose outcome is unknown. Returns false when the operation is
   * not unknown (any more).
   */
  settle(operation: { scope: string; key: string }, verdict: Verdict): Promise<boolean>
  /** Operations whose outcome is unknown, oldest first, by their hashed identity. */
  unknown(options?: { limit?: number }): Promise<readonly { id: string; sinceMs: number }[]>
  /** Applies missing migrations to the database. It is safe when many processes call it at once. */
  migrate(options?: MigrateOptions): Promise<{ from: number; to: number }>
  sweep(options?: { limit?: number; signal?: AbortSignal }): Promise<SweptAll>
  /**
   * Stops everything this instance started: consumers, operations, then relays. Refuses new work with ONCE_CLOSED, waits
   * for what runs, and cuts off what is left when the time is over. Then it closes the store, but no client of yours.
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
  /** The namespace that gets the rows from before namespaces. Needed only where several services left rows. */
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

/** The operation's type for your own service functions. */
export type OpOf<O> = O extends Once<infer Tx, infer E> ? Operation<Tx, E> : never
export type TxOf<O> = O extends Once<infer Tx, infer _E> ? Tx : never
