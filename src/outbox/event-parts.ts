import { onceError, type OnceError } from '../errors.ts'
import { AGGREGATE_BYTES_MAX, BAGGAGE_LENGTH_MAX, EVENT_BYTES_MAX, TRACESTATE_LENGTH_MAX } from '../limits.ts'
import type { Trace } from '../observe/tracing.ts'
import { isName } from '../platform/storable.ts'
import type { EventOptions } from './event.ts'

/** Refuses events that cannot be stored or sent, by their type, before anything is written. */
export function invalidEvent(detail: string, cause?: unknown): OnceError {
  return onceError('ONCE_EVENT_INVALID', { detail, cause })
}

export function aggregateOf(type: string, id: unknown): string {
  if (isName(id, AGGREGATE_BYTES_MAX)) return id
  throw invalidEvent(`the aggregate of '${type}' must be a string of 1 to ${AGGREGATE_BYTES_MAX} bytes`)
}

/** The data as JSON text. Bytes become a base64 string and a media type. `made`: the data, or the result of `encode`. */
export function payloadOf(
  type: string,
  made: unknown,
  { encode, contentType }: EventOptions<unknown> = {},
): { readonly payload: string; readonly contentType: string | undefined } {
  if (made instanceof Uint8Array) {
    checkSize(type, made.byteLength)
    const base64 = Buffer.from(made.buffer, made.byteOffset, made.byteLength).toString('base64')
    return { payload: `"${base64}"`, contentType: contentType ?? 'application/octet-stream' }
  }
  if (encode || contentType !== undefined) throw invalidEvent(`the data of '${type}' must be a Uint8Array`)
  return { payload: jsonOf(type, made), contentType: undefined }
}

function jsonOf(type: string, data: unknown): string {
  let json: string | undefined
  let cause: unknown
  try {
    json = JSON.stringify(data)
  } catch (error) {
    cause = error
  }
  if (json === undefined) throw invalidEvent(`the data of '${type}' cannot be written as JSON`, cause)
  checkSize(type, Buffer.byteLength(json))
  // PostgreSQL's jsonb cannot store these. This error names the event, and the database's error would not.
  if (UNSTORABLE.test(json)) throw invalidEvent(`the data of '${type}' contains a NUL character or a lone surrogate`)
  return json
}

/** A real escape has an even number of backslashes before it. */
const UNSTORABLE = /(?<!\\)(?:\\\\)*\\u(?:0000|d[89a-f][0-9a-f]{2})/

function checkSize(type: string, bytes: number): void {
  if (bytes <= EVENT_BYTES_MAX) return
  const detail = `the data of '${type}' has ${bytes} bytes; at most ${EVENT_BYTES_MAX} are allowed`
  throw onceError('ONCE_EVENT_TOO_LARGE', { detail })
}

export function notBeforeOf(type: string, time: unknown): string {
  if (time instanceof Date && !Number.isNaN(time.getTime())) return time.toISOString()
  throw invalidEvent(`notBefore of '${type}' must be a Date`)
}

const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/

function isTraceparent(text: unknown): text is string {
  return typeof text === 'string' && TRACEPARENT.test(text)
}

/** Invalid values of the caller are refused. Invalid values of its request are left out. */
export function traceOf(given: Trace, ambient: Trace | undefined): Trace {
  const { traceparent, tracestate, baggage } = given
  if (traceparent !== undefined && !isTraceparent(traceparent)) {
    throw invalidEvent('traceparent is not a valid W3C traceparent')
  }
  if (tracestate !== undefined && !isPrintable(tracestate, TRACESTATE_LENGTH_MAX)) {
    throw invalidEvent(`tracestate must be a string of 1 to ${TRACESTATE_LENGTH_MAX} ASCII characters`)
  }
  if (baggage !== undefined && !isPrintable(baggage, BAGGAGE_LENGTH_MAX)) {
    throw invalidEvent(`baggage must be a string of 1 to ${BAGGAGE_LENGTH_MAX} ASCII characters`)
  }
  const causationid = isPrintable(ambient?.causationid, TRACESTATE_LENGTH_MAX) ? ambient?.causationid : undefined
  if (traceparent !== undefined || !isTraceparent(ambient?.traceparent))
    return { traceparent, tracestate, baggage, causationid }
  // `tracestate` belongs to its `traceparent`. With another parent it would be wrong.
  const state = isPrintable(ambient.tracestate, TRACESTATE_LENGTH_MAX) ? ambient.tracestate : undefined
  return { traceparent: ambient.traceparent, tracestate: tracestate ?? state, baggage, causationid }
}

function isPrintable(text: unknown, most: number): text is string {
  return typeof text === 'string' && text.length <= most && /^[\x20-\x7e]+$/.test(text)
}
