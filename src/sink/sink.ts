import type { Duration } from '../duration.ts'
import { invalid } from '../options.ts'

/**
 * The Sink interface: where a relay sends events. A sink delivers at least once, and returns one verdict per event. It
 * declares what its acknowledgement proves, because brokers differ in this.
 */
export interface Sink {
  /** The name of the destination. It must never change, because the relay's cursors are stored under it. */
  readonly name: string
  /** The kind of broker, for traces and metrics: a value of OpenTelemetry's `messaging.system`, such as 'kafka'. */
  readonly system?: string
  /**
   * What 'sent' means. 'accepted': the receiver has the event, perhaps only in memory. 'flushed': the event survives a
   * power loss there. 'replicated': it survives the loss of a machine. 'handled': the receiver has finished handling
   * it.
   */
  readonly proves: 'accepted' | 'flushed' | 'replicated' | 'handled'
  /** For how long the broker itself drops a second event with the same `deduplicationId`. */
  readonly dedupes: Duration | 'forever' | false
  /**
   * true: the events of one aggregate in one call arrive in order, and no event arrives after a predecessor that
   * failed. If false, the relay sends only one event per aggregate at a time.
   */
  readonly orders: boolean
  /** The most events in one call. Default: as many as the relay reads at once */
  readonly batch?: number
  /** The most concurrent calls. Two calls never have events of the same aggregate. Default 1 */
  readonly concurrency?: number
  /**
   * Connects and looks at the server's settings. Returns one sentence for each setting that weakens the guarantee. A
   * relay that could not send for a while calls it again, to see whether the server can be reached. So it must ask the
   * server.
   */
  open?(): Promise<readonly string[]>
  /**
   * Returns one verdict per event, in the same order. Rejects if the sink itself is down: then no event loses an
   * attempt. The relay then waits and sends the same events again, except those whose verdict was reported with `told`.
   */
  send(events: readonly OutgoingEvent[], options: SendOptions): Promise<readonly Verdict[]>
  close?(): Promise<void>
}

export interface SendOptions {
  /** Aborts when the relay stops waiting. The relay sends again the events that have no verdict. */
  readonly signal: AbortSignal
  /**
   * Reports a verdict as it comes, by the event's index in the call. The verdict counts even if the call fails later.
   */
  readonly told?: ((index: number, verdict: Verdict) => void) | undefined
  /** False: the relay is stopping. Leave events that you have not begun without a verdict. */
  readonly mayBegin?: (() => boolean) | undefined
}

export type Verdict =
  | { readonly kind: 'sent' }
  /**
   * This event failed. `retryable: false`: it would fail every time. `perhapsDown`: perhaps the receiver is down. The
   * relay compares this answer with the answers to other events.
   */
  | {
      readonly kind: 'failed'
      readonly error: unknown
      readonly retryable: boolean
      readonly perhapsDown?: boolean
    }

export const SENT: Verdict = { kind: 'sent' }

/** A CloudEvents 1.0 event on its way out. */
export interface OutgoingEvent {
  readonly specversion: '1.0'
  /** Never changes. An inbox deduplicates by it. */
  readonly id: string
  readonly source: string
  readonly type: string
  /** The aggregate's id. */
  readonly subject: string
  /** When the event was published, in ISO 8601. */
  readonly time: string
  /** 'application/json', or the media type of bytes. */
  readonly datacontenttype: string
  /** Parsed when it is first read. A Uint8Array if bytes were published. */
  readonly data: unknown
  /** The data as JSON text. Bytes are a string in base64. */
  readonly json: string
  /** The data as it is sent in binary mode: JSON text, or the bytes. */
  readonly body: string | Uint8Array
  /** Events of one aggregate keep their order. */
  readonly aggregate: { readonly type: string; readonly id: string }
  /** The receiver deduplicates by it. It is the event's id, or a new id for a resend. */
  readonly brokerId: string
  /**
   * A broker that drops messages with a known id deduplicates by this id. It is the `brokerId`, or a new id after the
   * database was promoted or restored: its consumers may have lost what the broker still knows.
   */
  readonly deduplicationId: string
  readonly traceparent: string | undefined
  /** For `ordered` events: the id of the aggregate's previous event. Undefined for the first event. */
  readonly previous: string | undefined
  /** Every attribute that travelled with the event. */
  readonly headers: Readonly<Record<string, string>>
  /** 1 for the first attempt. */
  readonly attempt: number
}

const RESERVED = new Set(
  'specversion id source type subject time datacontenttype dataschema data data_base64 traceparent previous notbefore __proto__'.split(' '), // prettier-ignore
)

/** An attribute of CloudEvents, or one that the library uses itself. A user's header must not have this name. */
export function isReservedHeader(name: string): boolean {
  return RESERVED.has(name)
}

/**
 * The headers of a transport that tracers look for. Plain SQL may have written anything. A value that no transport takes
 * is left out, so that the event is still sent.
 */
export function traceHeaders({ traceparent, headers: { tracestate, baggage } }: OutgoingEvent): Record<string, string> {
  const found: Record<string, string> = {}
  for (const [name, value] of Object.entries({ traceparent, tracestate, baggage })) {
    if (value !== undefined && /^[\x20-\x7e]+$/.test(value)) found[name] = value
  }
  return found
}

/** Checks the option `mode` of a sink: CloudEvents' content mode. */
export function contentMode(mode: unknown = 'structured'): 'structured' | 'binary' {
  if (mode === 'structured' || mode === 'binary') return mode
  throw invalid(`mode must be 'structured' or 'binary'`)
}

/** CloudEvents' structured mode: one JSON document with everything in it. */
export function cloudEventJson(event: OutgoingEvent): string {
  const member = typeof event.body === 'string' ? 'data' : 'data_base64'
  return `${JSON.stringify(attributesOf(event)).slice(0, -1)},"${member}":${event.json}}`
}

/** CloudEvents' binary mode: the attributes are headers of the transport, and the body is the data alone. */
export function cloudEventHeaders(event: OutgoingEvent, prefix: string): Record<string, string> {
  const { datacontenttype, ...attributes } = attributesOf(event)
  const headers: Record<string, string> = { 'content-type': datacontenttype ?? '' }
  for (const [name, value] of Object.entries(attributes)) if (value !== undefined) headers[`${prefix}${name}`] = value
  return headers
}

function attributesOf(event: OutgoingEvent): Record<string, string | undefined> {
  const { specversion, id, source, type, subject, time, datacontenttype, traceparent, previous } = event
  const known = { specversion, id, source, type, subject, time, datacontenttype, traceparent, previous }
  const attributes: Record<string, string | undefined> = known
  for (const name in event.headers) if (!isReservedHeader(name)) attributes[name] = event.headers[name]
  return attributes
}
