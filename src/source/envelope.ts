import { ATTRIBUTE_LENGTH_MAX } from '../limits.ts'
import { sha256Hex } from '../platform/sha256.ts'
import { isStorable } from '../platform/storable.ts'
import { bodyText } from './body-text.ts'
import type { Delivery, Position, ReceivedEvent } from './source.ts'

/** A message, as a broker delivers it. */
export interface Message {
  /** UTF-8 text or bytes. */
  readonly body: string | Uint8Array
  /** Transport headers, by lower-case name. A header `ce-id` (also `ce_id`, `cloudEvents:id`) means binary mode. */
  readonly headers: Readonly<Record<string, string | undefined>>
  /**
   * The message's place (stream and sequence, topic and offset). It identifies a message without an id. Null: its bytes
   * do.
   */
  readonly place: string | null
  /** The publisher of a message that cannot be read: the source's own name. */
  readonly source: string
}

/** What a broker reports about one delivery. */
export interface Handling {
  readonly delivered?: number | undefined
  readonly redelivered: boolean
  readonly position?: Position | undefined
  /** A partition or a key. If the event has no subject, messages with the same value keep their order. */
  readonly aggregate?: string | null | undefined
}

interface Read {
  readonly event: ReceivedEvent
  readonly previous: string | null
  readonly ordered: true | undefined
  readonly tenant: string | undefined
}

/**
 * A delivery of a CloudEvent, in structured or binary mode. Broker sources extend it with their handle. Extension
 * attributes: `previous` (of ordered events; empty on the first), `tenant`.
 */
export class EnvelopeDelivery implements Delivery {
  readonly id: string
  readonly source: string
  readonly type: string
  readonly aggregate: string | null
  readonly previous: string | null
  readonly ordered: boolean | undefined
  readonly tenant: string | undefined
  readonly traceparent: string | undefined
  readonly problem: string | undefined
  readonly delivered: number | undefined
  readonly redelivered: boolean
  readonly position: Position | undefined
  readonly #message: Message
  #event: ReceivedEvent | undefined

  constructor(message: Message, handling: Handling) {
    this.#message = message
    this.delivered = handling.delivered
    this.redelivered = handling.redelivered
    this.position = handling.position
    const read = readCloudEvent(message)
    if (typeof read === 'string') {
      this.problem = read
      this.id = message.place ?? sha256Hex(textOf(message.body))
      this.source = message.source
      this.type = 'unreadable'
      this.aggregate = null
      this.previous = null
      this.ordered = false
      return
    }
    const { event, previous, ordered, tenant } = read
    this.#event = event
    this.id = event.id
    this.source = event.source
    this.type = event.type
    this.aggregate = event.subject ?? handling.aggregate ?? null
    this.previous = previous
    this.ordered = ordered
    this.tenant = tenant
    this.traceparent = event.traceparent
  }

  get event(): unknown {
    if (this.problem !== undefined) return undefined
    return (this.#event ??= (readCloudEvent(this.#message) as Read).event)
  }

  renew(): void {
    this.#event = undefined
  }

  get bytes(): number {
    return this.#message.body.length
  }

  get body(): string {
    return bodyText(this.#message.body)
  }

  get headers(): Readonly<Record<string, string>> {
    return definedOnly(this.#message.headers)
  }
}

/** Returns the event, or the reason why it cannot be read. */
export function readCloudEvent(message: Message): Read | string {
  const prefix = PREFIXES.find((candidate) => message.headers[`${candidate}id`] !== undefined)
  return prefix === undefined ? readStructured(message) : readBinary(message, prefix)
}

const PREFIXES = ['ce-', 'ce_', 'cloudevents:', 'cloudevents_']

function readStructured({ body, headers }: Message): Read | string {
  const document = parsed(body)
  if (!document) return 'the message is not JSON'
  const { value } = document
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return 'the message is not a CloudEvent'
  const { data, data_base64: base64, ...attributes } = value as Record<string, unknown>
  if (base64 !== undefined && (data !== undefined || !isBase64(base64))) return `'data_base64' is not base64`
  const traceparent = headers['traceparent']
  const known = { ...(traceparent === undefined ? {} : { traceparent }), ...attributes }
  return checked(known, base64 === undefined ? data : bytesOf(base64))
}

function readBinary({ body, headers }: Message, prefix: string): Read | string {
  const attributes: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(headers)) {
    if (name.startsWith(prefix))
      attributes[name.slice(prefix.length)] = prefix === 'ce-' ? percentDecoded(value) : value
  }
  attributes['traceparent'] ??= headers['traceparent']
  const isBytes = !JSON_TYPE.test(headers['content-type'] ?? headers[`${prefix}datacontenttype`] ?? '')
  const data = isBytes ? { value: asBytes(body) } : body.length === 0 ? { value: undefined } : parsed(body)
  return data ? checked(attributes, data.value) : 'the data is not JSON'
}

/** Over HTTP and NATS, which share a prefix, CloudEvents encodes characters that a header cannot have. */
function percentDecoded(value: string | undefined): string | undefined {
  try {
    return value === undefined ? undefined : decodeURIComponent(value)
  } catch {
    return value // the sender did not encode
  }
}

/** Matches an empty media type, and types of JSON. */
const JSON_TYPE = /^$|^[^/;]+\/(?:[^;]+\+)?json *(?:;|$)/i
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/

/** Whether a `data_base64` of CloudEvents is valid base64. */
export function isBase64(value: unknown): value is string {
  return typeof value === 'string' && BASE64.test(value)
}

export function bytesOf(base64: string): Uint8Array {
  return new Uint8Array(Buffer.from(base64, 'base64'))
}

function asBytes(body: string | Uint8Array): Uint8Array {
  return new Uint8Array(typeof body === 'string' ? Buffer.from(body) : body)
}

const KNOWN = new Set(['id', 'source', 'type', 'subject', 'time', 'traceparent', 'specversion', 'datacontenttype'])

function checked(attributes: Readonly<Record<string, unknown>>, data: unknown): Read | string {
  const { id, source, type, subject, time, traceparent } = attributes
  for (const [name, value] of Object.entries({ id, source, type })) {
    if (!isName(value)) return `'${name}' is not a string of 1 to ${ATTRIBUTE_LENGTH_MAX} characters`
  }
  const headers: Record<string, string> = {}
  for (const [name, value] of Object.entries(attributes)) {
    if (!KNOWN.has(name) && typeof value === 'string') headers[name] = value
  }
  const { previous, tenant } = headers
  if (previous && !isName(previous)) return `'previous' is not an id`
  return {
    event: {
      id: id as string,
      source: source as string,
      type: type as string,
      subject: isName(subject) ? subject : undefined,
      time: textOrUndefined(time),
      data,
      traceparent: textOrUndefined(traceparent),
      headers,
    },
    previous: previous || null,
    ordered: previous === undefined ? undefined : true,
    tenant,
  }
}

function isName(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value.length <= ATTRIBUTE_LENGTH_MAX && isStorable(value)
}

function textOrUndefined(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

function parsed(body: string | Uint8Array): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(typeof body === 'string' ? body : strict.decode(body)) as unknown }
  } catch {
    return undefined
  }
}

const strict = new TextDecoder('utf-8', { fatal: true })

function textOf(body: string | Uint8Array): string {
  return typeof body === 'string' ? body : Buffer.from(body).toString('base64')
}

function definedOnly(headers: Readonly<Record<string, string | undefined>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  )
}
