import type { OutgoingEvent } from '../sink/sink.ts'
import type { StoredEvent } from '../store/outbox.ts'

type Headers = Readonly<Record<string, string>>

const JSON_TYPE = 'application/json'

/** A stored event as sinks see it. Expensive properties are computed when they are first read. */
export class Outgoing implements OutgoingEvent {
  readonly specversion = '1.0'
  readonly attempt: number
  readonly headers: Headers
  readonly #stored: StoredEvent
  readonly #source: string
  readonly #resend: number
  readonly #timeline: string
  #data: { readonly value: unknown } | undefined

  constructor(stored: StoredEvent, headers: Headers, source: string, attempt: number, resend = 0, timeline = '') {
    this.#stored = stored
    this.#source = source
    this.headers = headers
    this.attempt = attempt
    this.#resend = resend
    this.#timeline = timeline
  }

  get id(): string {
    return this.#stored.id
  }

  /** A resend has its own id, because the broker would drop it as a duplicate otherwise. */
  get brokerId(): string {
    return this.#resend === 0 ? this.#stored.id : `${this.#stored.id}:r${this.#resend}`
  }

  /** After a failover, consumers may have lost an event that the broker remembers. The broker must not drop it. */
  get deduplicationId(): string {
    return this.#timeline === '' ? this.brokerId : `${this.brokerId}:t${this.#timeline}`
  }

  get source(): string {
    return this.headers['source'] ?? this.#source
  }

  get type(): string {
    return this.#stored.type
  }

  get subject(): string {
    return this.#stored.aggregateId
  }

  get time(): string {
    return new Date(this.#stored.at).toISOString()
  }

  get aggregate(): { readonly type: string; readonly id: string } {
    return { type: this.#stored.aggregateType, id: this.#stored.aggregateId }
  }

  get json(): string {
    return this.#stored.payload ?? 'null'
  }

  get datacontenttype(): string {
    return this.headers['datacontenttype'] ?? JSON_TYPE
  }

  get data(): unknown {
    this.#data ??= { value: this.#read() }
    return this.#data.value
  }

  get body(): string | Uint8Array {
    return this.#isJson ? this.json : (this.data as Uint8Array)
  }

  get previous(): string | undefined {
    return this.headers['previous']
  }

  get traceparent(): string | undefined {
    return this.headers['traceparent']
  }

  /** Bytes are stored as a JSON string. Plain SQL may set a media type for other JSON. */
  get #isJson(): boolean {
    return this.headers['datacontenttype'] === undefined || !this.json.startsWith('"')
  }

  #read(): unknown {
    const value: unknown = JSON.parse(this.json)
    return this.#isJson ? value : new Uint8Array(Buffer.from(String(value), 'base64'))
  }
}

/** Keeps the last parsed headers, because most events of a service have the same ones. */
export class HeaderReader {
  #text: string | null = null
  #headers: Headers = {}

  read(text: string | null): Headers {
    if (text === this.#text) return this.#headers
    this.#text = text
    this.#headers = parse(text)
    return this.#headers
  }
}

/** Leaves out values that are not text, because plain SQL may have written anything. */
function parse(text: string | null): Headers {
  let parsed: unknown
  try {
    parsed = text === null ? {} : JSON.parse(text)
  } catch {
    // Unreadable headers are ignored, so that the event is still sent.
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) return {}
  if (Object.values(parsed).every(isText)) return parsed as Headers
  return Object.fromEntries(Object.entries(parsed).filter((entry): entry is [string, string] => isText(entry[1])))
}

function isText(value: unknown): value is string {
  return typeof value === 'string'
}
