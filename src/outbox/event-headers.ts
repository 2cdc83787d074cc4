import { EVENT_HEADERS_BYTES_MAX, EVENT_HEADERS_MAX, EVENT_NAME_BYTES_MAX } from '../limits.ts'
import { isName, isStorable } from '../platform/storable.ts'
import { isReservedHeader } from '../sink/sink.ts'
import { invalidEvent } from './event-parts.ts'

interface Given {
  readonly tenant?: unknown
  readonly partitionKey?: unknown
  readonly headers?: unknown
}

const NAME = /^[a-z0-9][a-z0-9._-]{0,63}$/
/** Headers that have an option of their own. */
const OPTIONS: Readonly<Record<string, string>> = {
  tenant: 'tenant',
  partitionkey: 'partitionKey',
  tracestate: 'tracestate',
  baggage: 'baggage',
}

/** The attributes that a user adds to an event, by their names in CloudEvents. */
export function headersOf(type: string, { tenant, partitionKey, headers }: Given): Readonly<Record<string, string>> {
  return {
    ...(headers === undefined ? {} : checked(type, headers)),
    ...(tenant === undefined ? {} : { tenant: name(type, 'tenant', tenant) }),
    ...(partitionKey === undefined ? {} : { partitionkey: name(type, 'partitionKey', partitionKey) }),
  }
}

function name(type: string, option: string, value: unknown): string {
  if (isName(value, EVENT_NAME_BYTES_MAX)) return value
  throw invalidEvent(`${option} of '${type}' must be a string of 1 to ${EVENT_NAME_BYTES_MAX} bytes`)
}

function checked(type: string, headers: unknown): Record<string, string> {
  // A Map, a list or a Headers has its entries elsewhere, so they would be lost.
  if (typeof headers !== 'object' || headers === null || Symbol.iterator in headers) {
    throw invalidEvent(`headers of '${type}' must be an object`)
  }
  const entries = Object.entries(headers)
  if (entries.length > EVENT_HEADERS_MAX) {
    throw invalidEvent(`'${type}' has ${entries.length} headers; at most ${EVENT_HEADERS_MAX} are allowed`)
  }
  let bytes = 0
  for (const [header, value] of entries as [string, unknown][]) {
    const of = `the header '${header.slice(0, 80)}' of '${type}'`
    if (!NAME.test(header))
      throw invalidEvent(`${of} needs a name of 1 to 64 lower-case letters, digits, '.', '_', '-'`)
    const option = Object.hasOwn(OPTIONS, header) ? OPTIONS[header] : undefined
    if (option !== undefined) throw invalidEvent(`${of} is set by the option ${option}`)
    if (isReservedHeader(header)) throw invalidEvent(`${of} has the name of an attribute`)
    if (typeof value !== 'string' || !isStorable(value)) throw invalidEvent(`${of} must be a string`)
    bytes += Buffer.byteLength(header) + Buffer.byteLength(value)
  }
  if (bytes > EVENT_HEADERS_BYTES_MAX) {
    throw invalidEvent(`the headers of '${type}' have ${bytes} bytes; at most ${EVENT_HEADERS_BYTES_MAX} are allowed`)
  }
  return Object.fromEntries(entries)
}
