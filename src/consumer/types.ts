import type { Duration } from '../duration.ts'
import type { Mask } from './inbox/letter.ts'
import type { Events } from '../outbox/event.ts'
import type { PausableRunner } from '../outbox/relay.ts'
import type { PushedRequest, Source } from '../source/source.ts'
import type { Op, Result } from '../operation/types.ts'

export interface ConsumerOptions<M, L extends Duration | undefined> {
  /** The source of messages: a broker, `once.outbox` or a webhook. */
  from: Source<M>
  /** If set, handlers may call the outside world, and get `step` and `commit` instead of `tx`. */
  lease?: L
  /** The most concurrent transactions, or concurrent messages of a leased consumer. Default 10 */
  concurrency?: number
  /** How often a message may fail, or crash its process, before `onFailure` applies. Default 10 */
  attempts?: number
  /**
   * The minimum time for which a failing message is retried. `onFailure` applies when both the attempts and this time are
   * spent. Crashes and `final()` do not wait for this time. Default '1h', or '0s' if `attempts` is given
   */
  retryFor?: Duration
  /** The most messages per second of this consumer in this process. Default: no limit */
  rate?: number
  /** The most messages that share a transaction. With 1, each message has its own. Default 256 */
  batch?: number
  /**
   * true: the handlers of a batch run concurrently on their common transaction. Messages of one aggregate still run one
   * after the other. Use it only if no handler reads rows that another message's handler changes. Row locks do not
   * isolate these handlers from each other, because they share one transaction. Default false
   */
  pipelined?: boolean
  /**
   * 'once' (default): messages are delivered at least once, and the deduplication record commits with the effect.
   * 'at-least-once': there is no inbox, for handlers that are idempotent themselves. 'at-most-once': a message is
   * acknowledged before its handler runs, and never tried again.
   */
  delivery?: Delivering
  /**
   * What becomes of a message that failed for the last time. 'park' (default): the message and later messages of its
   * aggregate become dead letters. 'block': its aggregate waits until the message succeeds. 'skip': only the message
   * becomes a dead letter, and later messages run without it, out of order.
   */
  onFailure?: 'park' | 'block' | 'skip'
  /**
   * What becomes of messages of a type without a handler. 'park' (default): they become dead letters, so that a newer
   * version can run them. 'ignore': they are acknowledged and dropped. `{ ignore: ['invoice.*'] }`: only these types
   * are dropped, and the others are parked. With `stripeSource` and `githubSource` the default is 'ignore'.
   */
  unknown?: UnknownTypes
  /** Replaces the message's id, for example by a payment's invoice number. `ordered` events then lose their order. */
  key?: (event: M[keyof M]) => string
  /** Chooses what a person may see of a dead letter's body. */
  mask?: Mask
  /** The time limit of one transaction. Default: the instance's */
  deadline?: Duration
  /** How long an inbox row keeps its message's id and source as plain text. Default '30d' */
  inboxFor?: Duration
  /** How long an applied message is remembered. A redelivery after that time runs again. Default '366d' */
  rememberFor?: Duration
  /**
   * How long dead letters stay after they were settled. A parked letter stays until somebody settles it. Default '90d'
   */
  lettersFor?: Duration
  /**
   * What to do with a source that can deliver again after `rememberFor`. 'refuse' (default): the consumer does not
   * start. 'warn': the consumer starts, and a signal reports the problem.
   */
  horizon?: 'refuse' | 'warn'
}

/** What becomes of messages without a handler. In a type, `*` stands for any text. */
export type UnknownTypes = 'park' | 'ignore' | { readonly ignore: readonly string[] }

export type Delivering = 'once' | 'at-least-once' | 'at-most-once'

export type Handlers<M, L, Tx, E extends Events> = {
  [K in keyof M & string]?: (event: M[K], op: Op<L, Tx, E>) => Promise<Result<L, unknown>>
}

/** While a consumer is paused, its source gives waiting messages to other processes, unless the source keeps order. */
export interface Consumer extends PausableRunner {
  readonly name: string
}

/** A consumer that gets its messages by HTTP. `webhook()` mounts it. */
export interface PushedConsumer extends Consumer {
  receive(request: PushedRequest): Promise<PushedAnswer>
}

export interface PushedAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}
