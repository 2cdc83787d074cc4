import { sha256Hex } from '../../platform/sha256.ts'

/** PostgreSQL's limit for names. It silently truncates the name of a prepared statement. */
export const NAME_BYTES_MAX = 63

/**
 * The name of a prepared statement. Several schemas may share a connection, and behind a pooler, processes of several
 * versions.
 */
export function preparedName(schema: string, statement: string, text: string): string {
  const rest = `.${statement}.${sha256Hex(text).slice(0, 8)}`
  return ownName(schema, `${schema}${rest}`, rest)
}

/** The channel of this schema's notifications, quoted. */
export function channelName(schema: string): string {
  return `"${ownName(schema, `${schema.slice(1, -1)}_event`, '_event')}"`
}

/** `schema` is quoted ASCII. If the name would be too long, a digest replaces the schema. */
function ownName(schema: string, readable: string, rest: string): string {
  return readable.length <= NAME_BYTES_MAX ? readable : `eo_${sha256Hex(schema).slice(0, 16)}${rest}`
}
