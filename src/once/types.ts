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
} from '../operation/types.ts'
import type { Events } from '../outbox/event.ts'
import type { Relay, RelayOptions } from '../outbox/relay.ts'
import type { Jsonify } from '../platform/jsonify.ts'
import type { EventsOf, PulledSource } from '../source/source.ts'
import type { Consumer, ConsumerOptions, Handlers } from '../consumer/types.ts'
import type { Parked } from './parked-types.ts'
import type { SweptAll } from './sweeper.ts'

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

/** The operation's type for your own service functions. */
export type OpOf<O> = O extends Once<infer Tx, infer E> ? Operation<Tx, E> : never
export type TxOf<O> = O extends Once<infer Tx, infer _E> ? Tx : never
