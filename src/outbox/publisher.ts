import { onceError } from '../errors.ts'
import { AGGREGATE_BYTES_MAX, EVENT_BYTES_MAX, EVENTS_PER_OPERATION_MAX, SHARDS } from '../limits.ts'
import { sha256 } from '../platform/sha256.ts'
import type { EventRow } from '../store/store.ts'
import type { Events } from './event.ts'

export interface PublishOptions {
  /** Not sent before this time. */
  notBefore?: Date
}

/**
 * Collects the events of one operation. `publish` registers synchronously, so an event is not lost when nobody awaits
 * it; a failed validation fails the operation likewise. The completing statement writes what `take` returns.
 */
export class Publisher {
  readonly #events: Events
  readonly #source: string
  readonly #nextId: (ordinal: number) => string
  readonly #rows: (EventRow | Promise<EventRow>)[] = []

  constructor(events: Events, source: string, nextId: (ordinal: number) => string) {
    this.#events = events
    this.#source = source
    this.#nextId = nextId
  }

  publish(type: string, data: unknown, options: PublishOptions = {}): Promise<string> {
    const ordinal = this.#rows.length
    if (ordinal >= EVENTS_PER_OPERATION_MAX) {
      return this.#failed(
        onceError('ONCE_EVENT_INVALID', {
          detail: `an operation publishes at most ${EVENTS_PER_OPERATION_MAX} events`,
        }),
      )
    }
    const id = this.#nextId(ordinal)
    try {
      const row = this.#row(id, type, data, options)
      this.#rows.push(row)
      if (row instanceof Promise) {
        row.catch(() => {})
        return row.then(() => id)
      }
      return Promise.resolve(id)
    } catch (error) {
      return this.#failed(error)
    }
  }

  /** Everything published, in order; throws what made any of it invalid. */
  take(): readonly EventRow[] | Promise<readonly EventRow[]> {
    return this.#rows.some((row) => row instanceof Promise)
      ? Promise.all(this.#rows.map((row) => Promise.resolve(row)))
      : (this.#rows as EventRow[])
  }

  /** Events of a nested operation leave with the outer one. */
  adopt(rows: readonly EventRow[]): void {
    this.#rows.push(...rows)
  }

  /** Kept among the rows, so that the operation fails even when nobody awaits the call. */
  #failed(error: unknown): Promise<string> {
    const failure = Promise.reject<EventRow>(error)
    failure.catch(() => {})
    this.#rows.push(failure)
    return failure.then(String)
  }

  #row(id: string, type: string, data: unknown, options: PublishOptions): EventRow | Promise<EventRow> {
    const definition = Object.hasOwn(this.#events, type) ? this.#events[type] : undefined
    if (!definition) throw onceError('ONCE_EVENT_UNKNOWN', { detail: `'${type.slice(0, 80)}' is not in the catalogue` })
    if (!definition.schema) return this.#built(id, type, data, definition.aggregate, options)
    const result = definition.schema['~standard'].validate(data)
    const build = (checked: Awaited<typeof result>): EventRow => {
      if (checked.issues) {
        const [issue] = checked.issues
        throw onceError('ONCE_EVENT_INVALID', {
          detail: `'${type}' ${pathOf(issue?.path)}: ${issue?.message ?? 'invalid'}`,
        })
      }
      return this.#built(id, type, checked.value, definition.aggregate, options)
    }
    return result instanceof Promise ? result.then(build) : build(result)
  }

  #built(
    id: string,
    type: string,
    data: unknown,
    aggregate: (data: never) => string,
    options: PublishOptions,
  ): EventRow {
    const aggregateId = aggregate(data as never)
    if (typeof aggregateId !== 'string' || aggregateId === '' || Buffer.byteLength(aggregateId) > AGGREGATE_BYTES_MAX) {
      throw onceError('ONCE_EVENT_INVALID', {
        detail: `the aggregate of '${type}' must be a string of 1 to ${AGGREGATE_BYTES_MAX} bytes`,
      })
    }
    const headers: Record<string, string> = { source: this.#source }
    if (options.notBefore) headers['notbefore'] = options.notBefore.toISOString()
    return {
      id,
      shard: shardOf(aggregateId),
      aggregateType: type.split('.', 1)[0] as string,
      aggregateId,
      type,
      payload: payloadOf(type, data),
      headers: JSON.stringify(headers),
    }
  }
}

/** The same in the table's trigger, so that producers of plain SQL meet ours in the same shard. */
export function shardOf(aggregateId: string): number {
  return (sha256(aggregateId)[0] as number) % SHARDS
}

function payloadOf(type: string, data: unknown): string {
  let json: string | undefined
  try {
    json = JSON.stringify(data)
  } catch (cause) {
    throw onceError('ONCE_EVENT_INVALID', { detail: `the data of '${type}' cannot be written as JSON`, cause })
  }
  if (json === undefined)
    throw onceError('ONCE_EVENT_INVALID', { detail: `the data of '${type}' cannot be written as JSON` })
  const bytes = Buffer.byteLength(json)
  if (bytes > EVENT_BYTES_MAX) {
    throw onceError('ONCE_EVENT_TOO_LARGE', {
      detail: `the data of '${type}' has ${bytes} bytes, at most ${EVENT_BYTES_MAX} are allowed`,
    })
  }
  // PostgreSQL's jsonb has no place for NUL; failing here names the event instead of the statement.
  if (json.includes('\\u0000'))
    throw onceError('ONCE_EVENT_INVALID', { detail: `the data of '${type}' contains a NUL character` })
  return json
}

function pathOf(path: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined): string {
  return (path ?? []).map((part) => `/${String(typeof part === 'object' ? part.key : part)}`).join('') || 'data'
}
