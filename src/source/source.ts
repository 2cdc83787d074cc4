import type { Duration } from '../duration.ts'
import type { LogLife } from './log-life.ts'
import type { EventDef, Events } from '../outbox/event.ts'
import type { Jsonify } from '../platform/jsonify.ts'

/**
 * The Source interface: where a consumer reads. A source delivers at least once and in batches, and declares its
 * features. `M` maps each type of event to the value that its handler gets. Only the compiler uses `M`.
 */
export type Source<M> = PulledSource<M> | PushedSource<M>

interface Described<M> {
  /**
   * The name of the source in messages and stored positions. It must never change. Deduplication uses
   * `Delivery.source`, not this name.
   */
  readonly name: string
  /** The kind of broker, for traces and metrics: a value of OpenTelemetry's `messaging.system`, such as 'kafka'. */
  readonly system?: string
  /** How late a redelivery can come. The inbox must remember at least this long. 'forever': there is no limit. */
  readonly redeliversFor: Duration | 'forever'
  /**
   * Makes the handler's event from a dead letter that runs again, if its body is not a CloudEvent. Throws if the body
   * cannot be read. Default: parses the body as JSON
   */
  revive?(letter: RevivedLetter): unknown
  /**
   * The types of the publisher's catalogue, if it is known. At its start the consumer reports the types without a
   * handler.
   */
  readonly types?: readonly string[]
  /** The publisher's catalogue, if it is known. Its `decode` decodes bytes. */
  readonly events?: Events
  /** What to do with types without a handler, if the consumer has no option `unknown`. Default 'park' */
  readonly unknown?: 'park' | 'ignore'
  /** Never set. It only carries the type `M`. */
  readonly '~handles'?: M
}

export interface RevivedLetter {
  /** The message's own id. */
  readonly id: string
  readonly source: string
  readonly type: string
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
}

/** A source such as a broker or a table. The consumer asks it for more messages when it has room. */
export interface PulledSource<M> extends Described<M> {
  readonly kind: 'pulled'
  readonly features: SourceFeatures
  /**
   * How long a delivery may stay unsettled before the broker gives it to another consumer. 'connection': as long as the
   * connection lives. The consumer calls `extend` every third of this time. If the subscription has no `extend`, the
   * consumer gives back a delivery that takes longer than half of this time.
   */
  readonly holdsFor: Duration | 'connection'
  /** Connects, and creates what the consumer needs (a group, a durable, a lease). Rejects if that fails. */
  open(params: OpenParams): Promise<Subscription>
}

/** A source that sends messages by HTTP. `webhook(consumer)` mounts it. The HTTP answer settles the delivery. */
export interface PushedSource<M> extends Described<M> {
  readonly kind: 'pushed'
  /** Checks the signature over the raw bytes before anything is parsed. Never throws for bad input. */
  receive(request: PushedRequest): Pushed
}

export interface SourceFeatures {
  /**
   * Events of one aggregate arrive in order. While one of them is unsettled, no other process gets its successors. Then
   * order holds across processes without `ordered` events.
   */
  readonly orders: boolean
  /** Whether `Delivery.delivered` counts deliveries. If not, it is undefined. */
  readonly counts: boolean
  /**
   * `Delivery.redelivered` is meaningful. If it is always false, attempts that crash their process are not counted.
   */
  readonly marksRedelivered: boolean
  /** `giveBack` honours its delay. Otherwise the consumer holds the message until the delay is over. */
  readonly delays: boolean
  /** `Delivery.position` is set. Positions commit with the effect, and `OpenParams.positions` reads them again. */
  readonly positions: boolean
}

export interface OpenParams {
  /** The consumer's name: a durable, a group. Processes with the same name share the deliveries. */
  readonly consumer: string
  /** Aborts when the consumer stops: fetch nothing more. The consumer still settles the messages that it has. */
  readonly signal: AbortSignal
  /** The most deliveries that the consumer holds at a time. */
  readonly prefetch: number
  readonly positions: Positions
  /** Reports, as a signal, a problem despite which the source continues. */
  warn(error: unknown): void
  /** Reports a setting that weakens a promise, as the signal `advice`. Nothing has failed. */
  advise(advice: string): void
}

/** The consumer's positions in a log. They are stored in the database, and commit with the effects. */
export interface Positions {
  /** Returns the next offset to read, by partition. A partition that was never read has none. */
  read(partitions: readonly string[]): Promise<ReadonlyMap<string, string>>
  /**
   * Checks that the positions belong to this topic or stream. Returns the suffix of its partitions' names. Throws
   * ONCE_SOURCE_RECREATED if the topic was recreated, and the option `recreated` is 'stop'.
   */
  lifeOf?(log: LogLife): Promise<string>
}

/** Methods may be called concurrently, and also after `signal` aborted. No method is called after `close`. */
export interface Subscription {
  /**
   * Returns at least one delivery as soon as there is one, at most `max`. Returns none when `waitMs` is over, `signal`
   * aborts or the source is quiet. Rejects when the source is down: the consumer waits and calls again.
   */
  receive(params: ReceiveParams): Promise<readonly Delivery[]>
  /**
   * Settles deliveries for good. If the broker confirms acknowledgements, this resolves after the confirmation. A
   * rejection is harmless: the deliveries come again.
   */
  ack(deliveries: readonly Delivery[]): Promise<void>
  /**
   * Returns deliveries to the broker. They come again, to this or another subscription, after `delayMs` if the source
   * supports delays. A log takes no message back, so its source itself delivers them again.
   */
  giveBack(deliveries: readonly Delivery[], options: { readonly delayMs: number }): Promise<void>
  /**
   * `ack` resolves before the broker has stored the acknowledgement. If the process ends, acknowledged deliveries may
   * come again.
   */
  readonly acksLater?: boolean
  /** Settles deliveries that are stored as dead letters and must never come again. Default: `ack` */
  reject?(deliveries: readonly Delivery[], options: { readonly reason: string }): Promise<void>
  /**
   * The deliveries whose predecessors never come, because the source no longer has them. They run without their
   * predecessors. Absent: the source cannot tell.
   */
  orphans?(deliveries: readonly Delivery[]): Promise<readonly Delivery[]>
  /** Reports to the broker that the consumer still works on these deliveries. */
  extend?(deliveries: readonly Delivery[]): Promise<void>
  /**
   * The source calls this with the names of partitions that it lost. The consumer drops their deliveries that are not
   * running yet, and need not settle them.
   */
  onRevoked?(callback: (partitions: readonly string[]) => void): void
  /** Parts of the source are about to come to this subscription. A drain waits for them. */
  readonly isChanging?: boolean
  /**
   * For logs: the database no longer knows that these partitions were read so far. The source gives them up through
   * `onRevoked`, and then takes them again from the position in the database.
   */
  again?(partitions: readonly string[]): void
  /** Deliveries that were not settled come again. */
  close(): Promise<void>
}

export interface ReceiveParams {
  readonly max: number
  readonly waitMs: number
  readonly signal: AbortSignal
  /** A drain began after the last call. What the subscription remembers of earlier calls may be too old for the drain. */
  readonly drains?: boolean
}

/**
 * One delivery of one event. The consumer hands the same objects back, so a source may keep its handle in them. A
 * property may be a getter, so that a source computes costly values only when they are read.
 */
export interface Delivery {
  /** The event's own id, not the broker's number. Two deliveries with the same `id` and `source` are duplicates. */
  readonly id: string
  /** The publisher: CloudEvents' source, or the provider. */
  readonly source: string
  readonly type: string
  /** Messages of one aggregate keep their order. Null: the message has no order. */
  readonly aggregate: string | null
  /** For `ordered` events: the id of the aggregate's previous event. Null: the first event, or not ordered. */
  readonly previous: string | null
  /**
   * true: the event belongs to a chain by `previous`, perhaps as its first event. Its successors wait for its inbox
   * row, even if its type has no handler. undefined: not known, so an event with an aggregate counts as part of a chain.
   */
  readonly ordered?: boolean | undefined
  /** The handler's event. If reading it throws, the delivery is unreadable, like a delivery with a `problem`. */
  readonly event: unknown
  /**
   * Called before a handler gets the event. The next read of `event` then makes a new object, because a handler may change
   * the event and run again. Without this method, the handler gets the same object each time.
   */
  renew?(): void
  /** The original message, for the dead letter: text, or base64 if it is not text. */
  readonly body: string
  /** About how many bytes the delivery keeps in memory. Default: the source itself limits the bytes */
  readonly bytes?: number | undefined
  /** Headers for the dead letter, without secrets. */
  readonly headers: Readonly<Record<string, string>>
  /** 1 for the first delivery. Undefined if the source does not count deliveries. */
  readonly delivered: number | undefined
  readonly redelivered: boolean
  /** The tenant of the message, if the message names one. Dead letters can be filtered by it. */
  readonly tenant?: string | undefined
  readonly traceparent: string | undefined
  readonly position?: Position | undefined
  /** Why the message cannot be read. It is parked without running. Its id is made from its position or its bytes. */
  readonly problem?: string | undefined
}

export interface Position {
  /** `topic/partition`, unique within the source's name. */
  readonly partition: string
  /** The position of this delivery, as decimal text. */
  readonly offset: string
  /** The position to read next when everything up to this delivery is settled. */
  readonly next: string
}

export interface PushedRequest {
  readonly method: string
  /** Names are in lower case. Values of a repeated header are joined by ', '. */
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly body: Uint8Array
  /** Milliseconds since 1970, for the timestamp's tolerance. */
  readonly now: number
}

export type Pushed =
  | { readonly kind: 'delivery'; readonly delivery: Delivery }
  /** A handshake of the provider, such as a ping: answered without running anything. */
  | { readonly kind: 'answer'; readonly status: number; readonly body?: string }
  | { readonly kind: 'refused'; readonly code: PushedRefusal; readonly detail: string }

export type PushedRefusal = 'ONCE_SIGNATURE_INVALID' | 'ONCE_TIMESTAMP_STALE' | 'ONCE_BODY_INVALID'

/** The event that a handler gets: a CloudEvent whose data is parsed JSON, or bytes. */
export interface ReceivedEvent<T extends string = string, D = unknown> {
  readonly id: string
  readonly source: string
  readonly type: T
  /** The aggregate's id. */
  readonly subject: string | undefined
  /** When the event was published, in ISO 8601. */
  readonly time: string | undefined
  readonly data: D
  readonly traceparent: string | undefined
  /** Every other attribute of the event. */
  readonly headers: Readonly<Record<string, string>>
}

/** What the handlers of a catalogue's events get. */
export type EventsOf<E extends Events> = {
  [T in keyof E & string]: ReceivedEvent<T, E[T] extends EventDef<infer _Input, infer Output> ? Arrived<Output> : never>
}

/** Bytes arrive as bytes, any other value in its JSON form. */
type Arrived<D> = D extends Uint8Array ? Uint8Array : Jsonify<D>

/** The same for a provider's union of events, such as `Stripe.Event`. */
export type ByType<U extends { readonly type: string }> = { [T in U['type']]: Extract<U, { readonly type: T }> }
