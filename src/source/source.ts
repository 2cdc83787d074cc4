import type { Duration } from '../duration.ts'
import type { LogLife } from './log-life.ts'
import type { EventDef, Events } from '../outbox/event.ts'
import type { Jsonify } from '../platform/jsonify.ts'

/**
 * The Source seam: where a consumer reads. A source delivers at least once and in batches; what it cannot do is a
 * declared feature, never a silent downgrade. `M` maps each type of event to what its handler is given, and exists for
 * the compiler alone.
 */
export type Source<M> = PulledSource<M> | PushedSource<M>

interface Described<M> {
  /** For messages, and for positions: the same for ever. Dedup is by `Delivery.source`, not by this name. */
  readonly name: string
  /** How late a redelivery can come: what the inbox must remember at least. 'forever': the broker never forgets. */
  readonly redeliversFor: Duration | 'forever'
  /**
   * Makes the handler's event of a dead letter that runs again, where its body is no CloudEvent. Default: the body as
   * JSON. Throws when the body cannot be read.
   */
  revive?(letter: RevivedLetter): unknown
  /**
   * The types of the publisher's catalogue, where it is known. At the start the consumer reports those without a
   * handler.
   */
  readonly types?: readonly string[]
  /** The publisher's catalogue, where it is known: its `decode` makes data of bytes. */
  readonly events?: Events
  /** What becomes of types without a handler unless the consumer says so. Default 'park' */
  readonly unknown?: 'park' | 'ignore'
  /** Never set: it carries `M`. */
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

/** A broker, a table: the consumer asks for more when it has room. */
export interface PulledSource<M> extends Described<M> {
  readonly kind: 'pulled'
  readonly features: SourceFeatures
  /**
   * How long a delivery may stay unsettled before the broker gives it to somebody else. 'connection': as long as the
   * connection lives. The consumer calls `extend` every third of this time. Without `extend` it gives back a delivery
   * that takes longer than half of it.
   */
  readonly holdsFor: Duration | 'connection'
  /** Connects, and makes what the consumer needs (a group, a durable, a lease). Rejects when that cannot be done. */
  open(params: OpenParams): Promise<Subscription>
}

/** A provider calls us: `webhook(consumer)` mounts the source. The HTTP answer settles the delivery. */
export interface PushedSource<M> extends Described<M> {
  readonly kind: 'pushed'
  /** Checks the signature over the raw bytes before anything is parsed. Never throws for bad input. */
  receive(request: PushedRequest): Pushed
}

export interface SourceFeatures {
  /**
   * Events of one aggregate arrive in order, and while one of them is unsettled its successors go to nobody else. Then
   * order holds across processes without `ordered` events.
   */
  readonly orders: boolean
  /** `Delivery.delivered` counts; otherwise it is undefined. */
  readonly counts: boolean
  /**
   * `Delivery.redelivered` is meaningful. Where it is always false, a message that kills its process is not counted.
   */
  readonly marksRedelivered: boolean
  /** `giveBack` honours its delay. Otherwise the consumer holds the message until the delay is over. */
  readonly delays: boolean
  /** `Delivery.position` is set: positions are stored with the effect, and read again by `OpenParams.positions`. */
  readonly positions: boolean
}

export interface OpenParams {
  /** The consumer's name: a durable, a group. Processes with the same name share the deliveries. */
  readonly consumer: string
  /** Aborts when the consumer stops: nothing more need be fetched. What was delivered is still settled. */
  readonly signal: AbortSignal
  /** How many deliveries the consumer holds at most: a prefetch. */
  readonly prefetch: number
  readonly positions: Positions
  /** Reports a problem that the source can go on with, as a signal. */
  warn(error: unknown): void
}

/** Where this consumer is in a log, as the database knows it: committed with the effects. */
export interface Positions {
  /** The next offset to read, by partition; a partition without one was never read. */
  read(partitions: readonly string[]): Promise<ReadonlyMap<string, string>>
  /**
   * Checks that this is still the topic or stream of the positions. Returns the ending of its partitions' names. Throws
   * ONCE_SOURCE_RECREATED where it is another one, and 'stop' was asked for.
   */
  lifeOf?(log: LogLife): Promise<string>
}

/** Methods may be called while others are under way, also after `signal` aborted; nothing after `close`. */
export interface Subscription {
  /**
   * Returns at least one delivery as soon as there is one, at most `max`. Returns none when `waitMs` is over, `signal`
   * aborts or the source is quiet. Rejects when the source is down: the consumer waits and calls again.
   */
  receive(params: ReceiveParams): Promise<readonly Delivery[]>
  /**
   * Settles deliveries for ever. Resolves when the broker has confirmed it, where brokers do. A rejection is harmless:
   * the deliveries come again.
   */
  ack(deliveries: readonly Delivery[]): Promise<void>
  /**
   * The deliveries come again, to this or another subscription, not before `delayMs` where the source delays. A log
   * cannot take anything back, so its source delivers them again itself.
   */
  giveBack(deliveries: readonly Delivery[], options: { readonly delayMs: number }): Promise<void>
  /** `ack` resolves before the broker has stored it. If the process ends, acknowledged deliveries may come again. */
  readonly acksLater?: boolean
  /** These deliveries must never come again: a dead letter has them. Default: `ack`. */
  reject?(deliveries: readonly Delivery[], options: { readonly reason: string }): Promise<void>
  /** Still at work on these. */
  extend?(deliveries: readonly Delivery[]): Promise<void>
  /**
   * The source calls this with the names of partitions that it lost. The consumer drops their deliveries that are not
   * running yet, and need not settle them.
   */
  onRevoked?(callback: (partitions: readonly string[]) => void): void
  /**
   * For logs: the database no longer knows that these partitions were read so far. The source gives them up through
   * `onRevoked`, and then takes them again from the position in the database.
   */
  again?(partitions: readonly string[]): void
  /** What was not settled comes again. */
  close(): Promise<void>
}

export interface ReceiveParams {
  readonly max: number
  readonly waitMs: number
  readonly signal: AbortSignal
}

/**
 * One delivery of one event. The consumer hands the same objects back, so a source may keep its handle in them. Getters
 * are fine: whatever costs something may be made when it is first asked for.
 */
export interface Delivery {
  /** With `source`, what makes two deliveries the same: the event's own id, never the broker's number. */
  readonly id: string
  /** Who published it: CloudEvents' source, or the provider. */
  readonly source: string
  readonly type: string
  /** What is kept in order; null: nothing. */
  readonly aggregate: string | null
  /** `ordered` events: the id of the aggregate's event before this one. null: the first, or not ordered. */
  readonly previous: string | null
  /**
   * The event belongs to a chain by `previous`, perhaps as its first. Its successors wait for its inbox row, even if
   * nobody handles its type. undefined: not known, so an event with an aggregate counts as part of a chain.
   */
  readonly ordered?: boolean | undefined
  /** What the handler is given. May throw when read: then the delivery is unreadable, like one with a `problem`. */
  readonly event: unknown
  /** The message as it came, for the dead letter: text, or base64 where it is not text. */
  readonly body: string
  /** About how many bytes the delivery keeps in memory. Default: the source itself limits the bytes */
  readonly bytes?: number | undefined
  /** Headers for the dead letter; never secrets. */
  readonly headers: Readonly<Record<string, string>>
  /** 1 for the first delivery; undefined where the source does not count. */
  readonly delivered: number | undefined
  readonly redelivered: boolean
  /** The tenant that the message belongs to, where the message says so. Dead letters can be filtered by it. */
  readonly tenant?: string | undefined
  readonly traceparent: string | undefined
  readonly position?: Position | undefined
  /** Why the message cannot be read. It is parked without running, and its id is made of its place or its bytes. */
  readonly problem?: string | undefined
}

export interface Position {
  /** `topic/partition`, unique within the source's name. */
  readonly partition: string
  /** Decimal text: where this delivery is. The position after it is the next one, as `next` says. */
  readonly offset: string
  /** Where to go on once everything up to here is settled. */
  readonly next: string
}

export interface PushedRequest {
  readonly method: string
  /** Lower-case names; a repeated header is joined by ', '. */
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

/** What a handler gets for an event of ours: CloudEvents, with the data as parsed JSON, or bytes as they are. */
export interface ReceivedEvent<T extends string = string, D = unknown> {
  readonly id: string
  readonly source: string
  readonly type: T
  /** The aggregate's id. */
  readonly subject: string | undefined
  /** ISO 8601, when it was published. */
  readonly time: string | undefined
  readonly data: D
  readonly traceparent: string | undefined
  /** Every other attribute that travelled with it. */
  readonly headers: Readonly<Record<string, string>>
}

/** What the handlers of a catalogue's events get. */
export type EventsOf<E extends Events> = {
  [T in keyof E & string]: ReceivedEvent<T, E[T] extends EventDef<infer _Input, infer Output> ? Arrived<Output> : never>
}

/** Bytes arrive as bytes, anything else as JSON has it. */
type Arrived<D> = D extends Uint8Array ? Uint8Array : Jsonify<D>

/** The same for a provider's union of events, such as `Stripe.Event`. */
export type ByType<U extends { readonly type: string }> = { [T in U['type']]: Extract<U, { readonly type: T }> }
