import { onceError } from '../errors.ts'
import { EVENTS_PER_OPERATION_MAX, SHARDS } from '../limits.ts'
import type { Span, Trace } from '../observe/tracing.ts'
import { sha256Hex } from '../platform/sha256.ts'
import { aggregateTypeOf } from '../store/erasure.ts'
import type { EventRow } from '../store/store.ts'
import type { EventDef, Events } from './event.ts'
import { aggregateOf, invalidEvent, notBeforeOf, payloadOf, traceOf } from './event-parts.ts'
import { headersOf } from './event-headers.ts'

export interface PublishOptions {
  /** The event is not sent before this time. */
  notBefore?: Date
  /** W3C Trace Context. Default: that of the active span, of the HTTP request, or of the message */
  traceparent?: string
  /** W3C Trace Context. Default: the `tracestate` that belongs to the `traceparent` */
  tracestate?: string
  /**
   * W3C Baggage. It goes wherever the event goes. Default: none, because a request's baggage may not be meant for every
   * receiver
   */
  baggage?: string
  /** The tenant that the event belongs to. Dead letters can be filtered by it. */
  tenant?: string
  /** Kafka chooses the partition by it. All events of one aggregate should have the same key. Default: the aggregate */
  partitionKey?: string
  /** Sent with the event as CloudEvents attributes: lower-case names, string values. */
  headers?: Readonly<Record<string, string>>
}

const NO_OPTIONS: PublishOptions = {}
const OPTIONS = new Set(['notBefore', 'traceparent', 'tracestate', 'baggage', 'tenant', 'partitionKey', 'headers'])

/** Refuses unknown options. If a misspelled option were ignored, a mail would be sent today instead of tomorrow. */
function checkOptions(type: unknown, options: unknown): void {
  if (options === NO_OPTIONS) return
  if (typeof options !== 'object' || options === null)
    throw invalidEvent(`the options of '${nameOf(type)}' must be an object`)
  const unknown = Object.keys(options).find((option) => !OPTIONS.has(option))
  if (unknown !== undefined) throw invalidEvent(`'${nameOf(type)}' has an unknown option '${unknown.slice(0, 40)}'`)
}

function nameOf(type: unknown): string {
  return String(type).slice(0, 80)
}

/** The namespace of the events: its name, and its number or a function that reads it. */
export interface Origin {
  readonly name: string
  readonly no: number | (() => Promise<number>)
}

/**
 * Collects the events of one operation. `publish` registers an event synchronously, so an event is not lost if the call
 * is not awaited. A failed validation fails the operation, too. The completing statement writes the events that `take`
 * returns.
 */
export class Publisher {
  readonly #events: Events
  readonly #origin: Origin
  readonly #nextId: (ordinal: number) => string
  readonly #trace: Trace | undefined
  readonly #span: Span | undefined
  readonly #rows: (EventRow | Promise<EventRow>)[] = []

  /**
   * `trace` is the default for events published without their own. An invalid value is ignored. With a `span` that
   * records, each event gets a span of its own.
   */
  constructor(events: Events, origin: Origin, nextId: (ordinal: number) => string, trace?: Trace, span?: Span) {
    this.#trace = trace
    this.#span = span
    this.#events = events
    this.#origin = origin
    this.#nextId = nextId
  }

  publish(type: string, data: unknown, options: PublishOptions = NO_OPTIONS): Promise<string> {
    const ordinal = this.#rows.length
    if (ordinal >= EVENTS_PER_OPERATION_MAX) {
      return this.#failed(invalidEvent(`an operation publishes at most ${EVENTS_PER_OPERATION_MAX} events`))
    }
    const id = this.#nextId(ordinal)
    try {
      const row = this.#row(id, type, data, options)
      this.#rows.push(row)
      if (row instanceof Promise) {
        row.catch(() => {})
        return handled(row.then(() => id))
      }
      return Promise.resolve(id)
    } catch (error) {
      return this.#failed(error)
    }
  }

  /** All published events, in order. Throws if one of them is invalid. */
  take(): readonly EventRow[] | Promise<readonly EventRow[]> {
    return this.#rows.some((row) => row instanceof Promise)
      ? Promise.all(this.#rows.map((row) => Promise.resolve(row)))
      : (this.#rows as EventRow[])
  }

  /** Events of a nested operation are written with those of the outer one. */
  adopt(rows: readonly EventRow[]): void {
    this.#rows.push(...rows)
  }

  /** An error is kept among the rows, so that the operation fails even if the handler does not await the call. */
  #failed(error: unknown): Promise<string> {
    const failure = Promise.reject<EventRow>(error)
    failure.catch(() => {})
    this.#rows.push(failure)
    return handled(failure.then(String))
  }

  #row(id: string, type: string, data: unknown, options: PublishOptions): EventRow | Promise<EventRow> {
    checkOptions(type, options)
    const definition = Object.hasOwn(this.#events, type) ? this.#events[type] : undefined
    if (!definition) {
      throw onceError('ONCE_EVENT_UNKNOWN', { detail: `'${nameOf(type)}' is not in the catalogue` })
    }
    if (!definition.schema) return this.#built(id, type, data, definition, options)
    const result = definition.schema['~standard'].validate(data)
    const build = (checked: Awaited<typeof result>): EventRow | Promise<EventRow> => {
      if (checked.issues) {
        const [issue] = checked.issues
        throw invalidEvent(`'${type}' ${pathOf(issue?.path)}: ${issue?.message ?? 'invalid'}`)
      }
      return this.#built(id, type, checked.value, definition, options)
    }
    return result instanceof Promise ? result.then(build) : build(result)
  }

  #built(
    id: string,
    type: string,
    data: unknown,
    definition: EventDef,
    options: PublishOptions,
  ): EventRow | Promise<EventRow> {
    const aggregateId = aggregateOf(type, definition.aggregate(data))
    const { encode } = definition.options ?? {}
    const made: unknown = encode ? encode(data) : data
    const write = (of: unknown): EventRow | Promise<EventRow> =>
      this.#written(id, type, aggregateId, of, definition, options)
    return encode && made instanceof Promise ? made.then(write) : write(made)
  }

  #written(
    id: string,
    type: string,
    aggregateId: string,
    made: unknown,
    definition: EventDef,
    options: PublishOptions,
  ): EventRow | Promise<EventRow> {
    const { payload, contentType } = payloadOf(type, made, definition.options)
    const headers: Record<string, string | null> = { source: this.#origin.name, ...headersOf(type, options) }
    for (const [name, value] of Object.entries(traceOf(options, this.#traceOf(id, type))))
      if (value !== undefined) headers[name] ??= value
    if (options.notBefore !== undefined) headers['notbefore'] = notBeforeOf(type, options.notBefore)
    if (contentType !== undefined) headers['datacontenttype'] = contentType
    // Under the shard's lock, the store writes the id of the previous event into it.
    if (definition.options?.ordered) headers['previous'] = null
    const { no } = this.#origin
    const row = (namespace: number): EventRow => ({
      id,
      shard: shardOf(aggregateId, namespace),
      aggregateType: aggregateTypeOf(type),
      aggregateId,
      type,
      payload,
      headers: JSON.stringify(headers),
    })
    return typeof no === 'number' ? row(no) : no().then(row)
  }

  /** The span of an event has no duration. It gives the event a place in the trace. */
  #traceOf(id: string, type: string): Trace | undefined {
    if (!this.#span?.isRecording) return this.#trace
    const span = this.#span.part({ kind: 'publish', type, event: id })
    span.end()
    return { ...this.#trace, ...span.trace }
  }
}

/** Marks the rejection as handled. The operation fails with it, so it must not end the process too. */
function handled(told: Promise<string>): Promise<string> {
  told.catch(() => {})
  return told
}

/** The shard of an aggregate in its namespace. The view's trigger computes the same shard for plain SQL. */
export function shardOf(aggregateId: string, namespace = 0): number {
  return namespace * SHARDS + (Number.parseInt(sha256Hex(aggregateId).slice(0, 2), 16) % SHARDS)
}

function pathOf(path: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined): string {
  return (path ?? []).map((part) => `/${String(typeof part === 'object' ? part.key : part)}`).join('') || 'data'
}
