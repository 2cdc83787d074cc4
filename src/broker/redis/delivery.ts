import { pairsOf } from './client.ts'
import { EnvelopeDelivery, type Handling } from '../../source/envelope.ts'

/** An entry of a stream: its fields by lower-case name. */
export interface RedisEntry {
  readonly id: string
  readonly fields: Readonly<Record<string, string>>
}

export class RedisDelivery extends EnvelopeDelivery {
  /** The entry's id. */
  readonly entry: string

  constructor(entry: RedisEntry, of: { readonly stream: string; readonly name: string } & Handling) {
    const { event, data, ...headers } = entry.fields
    super({ body: event ?? data ?? '', headers, place: `${of.stream}:${entry.id}`, source: of.name }, of)
    this.entry = entry.id
  }
}

/**
 * Reads the entries in a reply of XREADGROUP, XCLAIM or XAUTOCLAIM. Deleted entries have no fields, and are left out.
 */
export function entriesOf(reply: unknown): RedisEntry[] {
  if (!Array.isArray(reply)) return []
  return (reply as unknown[]).flatMap((item) => {
    if (!Array.isArray(item) || !Array.isArray(item[1])) return []
    const fields: Record<string, string> = {}
    const flat = (item[1] as unknown[]).map(String)
    for (let i = 0; i + 1 < flat.length; i += 2) fields[(flat[i] as string).toLowerCase()] = flat[i + 1] as string
    return [{ id: String(item[0]), fields }]
  })
}

/** Reads the reply of a read of one stream: a list of pairs in RESP2, and in RESP3 a map, which ioredis flattens. */
export function freshOf(reply: unknown): RedisEntry[] {
  if (Array.isArray(reply) && Array.isArray(reply[0])) {
    return (reply as unknown[][]).flatMap(([, entries]) => entriesOf(entries))
  }
  return [...pairsOf(reply).values()].flatMap(entriesOf)
}
