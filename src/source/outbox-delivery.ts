import { Outgoing } from '../outbox/outgoing.ts'
import type { Shard } from '../outbox/shard.ts'
import { cloudEventJson } from '../sink/sink.ts'
import type { StoredEvent } from '../store/outbox.ts'
import type { Delivery, Position, ReceivedEvent } from './source.ts'

/** One event of the outbox table in the hands of a consumer. */
export class OutboxDelivery implements Delivery {
  readonly stored: StoredEvent
  /** The lease under which the event was read. After the lease is lost, another event may have its number. */
  readonly lease: Shard
  /** Whether the event was held: a delayed event whose time has come, or a resend. */
  readonly held: boolean
  readonly delivered: number
  readonly #origin: string
  readonly #outgoing: Outgoing
  readonly #previous: string | null | undefined
  #event: ReceivedEvent | undefined

  constructor(stored: StoredEvent, of: { lease: Shard; held: boolean; delivered: number; source: string }) {
    this.stored = stored
    this.lease = of.lease
    this.held = of.held
    this.delivered = of.delivered
    const headers = readHeaders(stored.headers)
    this.#previous = headers.previous
    this.#origin = of.source
    this.#outgoing = new Outgoing(stored, headers.texts, of.source, of.delivered)
  }

  get id(): string {
    return this.stored.id
  }

  get source(): string {
    return this.#outgoing.source
  }

  get type(): string {
    return this.stored.type
  }

  get aggregate(): string {
    return this.stored.aggregateId
  }

  get previous(): string | null {
    return this.#previous ?? null
  }

  get ordered(): boolean {
    return this.#previous !== undefined
  }

  get redelivered(): boolean {
    return this.delivered > 1
  }

  get event(): ReceivedEvent {
    return (this.#event ??= this.#read())
  }

  renew(): void {
    this.#event = undefined
  }

  get body(): string {
    return cloudEventJson(this.#outgoing)
  }

  get headers(): Readonly<Record<string, string>> {
    return this.#outgoing.headers
  }

  get tenant(): string | undefined {
    return this.#outgoing.headers['tenant']
  }

  get traceparent(): string | undefined {
    return this.#outgoing.traceparent
  }

  /** Not stored, because the outbox has its own cursors. It identifies the shard when the shard is lost. */
  get position(): Position {
    const { shard, seq } = this.stored
    return { partition: String(shard), offset: String(seq), next: String(seq + 1) }
  }

  #read(): ReceivedEvent {
    const headers = { ...this.headers }
    const read = new Outgoing(this.stored, headers, this.#origin, this.delivered)
    const { id, source, type, subject, time, data, traceparent } = read
    return { id, source, type, subject, time, data, traceparent, headers }
  }
}

/** Leaves out values that are not text (plain SQL may have written them). `previous` is null on the first of a chain. */
function readHeaders(text: string | null): { texts: Record<string, string>; previous: string | null | undefined } {
  let parsed: unknown = {}
  try {
    parsed = text === null ? {} : JSON.parse(text)
  } catch {
    // Ignore unreadable headers, so that the event is still delivered.
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) return { texts: {}, previous: undefined }
  const entries = Object.entries(parsed)
  const texts = Object.fromEntries(entries.filter((entry): entry is [string, string] => typeof entry[1] === 'string'))
  const previous = texts['previous'] ?? ('previous' in parsed ? null : undefined)
  return { texts, previous }
}
