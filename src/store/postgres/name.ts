import { sha256Hex } from '../../platform/sha256.ts'

/** PostgreSQL looks at this much of a name; of a prepared statement's it cuts off the rest without a word. */
export const NAME_BYTES_MAX = 63

/** A statement of ours on a connection that several schemas share, and behind a pooler processes of several versions. */
export function preparedName(schema: string, statement: string, text: string): string {
  const rest = `.${statement}.${sha256Hex(text).slice(0, 8)}`
  return ownName(schema, `${schema}${rest}`, rest)
}

/** Where a producer of this schema calls, quoted. */
export function channelName(schema: string): string {
  return `"${ownName(schema, `${schema.slice(1, -1)}_event`, '_event')}"`
}

/** `schema` is quoted, and made of single bytes. A digest stands for one that leaves no room. */
function ownName(schema: string, readable: string, rest: string): string {
  return readable.length <= NAME_BYTES_MAX ? readable : `eo_${sha256Hex(schema).slice(0, 16)}${rest}`
}
