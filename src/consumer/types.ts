import type { Duration } from '../duration.ts'
import type { Mask } from './inbox/letter.ts'
import type { Events } from '../outbox/event.ts'
import type { PausableRunner } from '../outbox/relay.ts'
import type { PushedRequest, Source } from '../source/source.ts'
import type { Op, Result } from '../operation/types.ts'

export interface ConsumerOptions<M, L extends Duration | undefined> {
  /** Where the consumer reads: a broker, `once.outbox`, a webhook. */
  from: Source<M>
  /** Present: handlers call the outside world and have `step` and `commit` instead of `tx`. */
  lease?: L
  /** Transactions at a time. For a leased consumer: messages at a time. Default 10 */
  concurrency?: number
  /** How often a message may fail, or end its process. Default 10 */
  attempts?: number
  /** Messages per second, at most, of this consumer in this process. Default: as many as the handlers take */
  rate?: number
  /** The most messages that share a transaction. Default 256; 1: each has its own. */
  batch?: number
  /**
   * true: the handlers of a batch run at the same time on their common transaction, those of one aggregate one after
   * the other. Only for handlers that do not read what another message's handler changes. Row locks do not isolate
   * these handlers from each other, because they share one transaction. Default false
   */
  pipelined?: boolean
  /**
   * 'once' (default): delivered at least once, and the deduplication record commits with the effect. 'at-least-once':
   * no inbox, for handlers that are idempotent themselves. 'at-most-once': acknowledged before the handler runs, never
   * tried again.
   */
  delivery?: Delivering
  /**
   * What becomes of a message that failed for the last time. 'park' (default): it and its successors of the same aggregate
   * are set aside. 'block': its aggregate waits until it succeeds. 'skip': set aside, its successors go on without it.
   */
  onFailure?: 'park' | 'block' | 'skip'
  /**
   * Messages of a type without a handler. 'park' (default): set aside, so that a newer version can run them. 'ignore':
   * acknowledged and gone. `{ ignore: ['invoice.*'] }`: these types are ignored, the others are set aside. With
   * `stripeSource` and `githubSource` the default is 'ignore'.
   */
  unknown?: UnknownTypes
  /** Identifies a message instead of its id, for example by the invoice of a payment. Then `previous` keeps no order. */
  key?: (event: M[keyof M]) => string
  /** What a person may see of a dead letter's body. */
  mask?: Mask
  /** The time limit of one transaction. Default: the instance's */
  deadline?: Duration
  /** How long an inbox row keeps its message's id and source in clear. Default '30d' */
  inboxFor?: Duration
  /** How long a message is remembered after it was applied: a later redelivery is a new message. Default '366d' */
  rememberFor?: Duration
  /** How long dead letters stay after they were settled. Parked ones stay. Default '90d' */
  lettersFor?: Duration
  /**
   * What to do with a source that can deliver again after `rememberFor`. 'refuse' (default): the consumer does not
   * start. 'warn': a signal reports it.
   */
  horizon?: 'refuse' | 'warn'
}

/** `*` stands for any text. */
export type UnknownTypes = 'park' | 'ignore' | { readonly ignore: readonly string[] }

export type Delivering = 'once' | 'at-least-once' | 'at-most-once'

export type Handlers<M, L, Tx, E extends Events> = {
  [K in keyof M & string]?: (event: M[K], op: Op<L, Tx, E>) => Promise<Result<L, unknown>>
}

/** While it is paused, its source gives to others what this process has not begun, unless the source keeps order. */
export interface Consumer extends PausableRunner {
  readonly name: string
}

/** A consumer whose source is pushed: what `webhook()` mounts. */
export interface PushedConsumer extends Consumer {
  receive(request: PushedRequest): Promise<PushedAnswer>
}

export interface PushedAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}
