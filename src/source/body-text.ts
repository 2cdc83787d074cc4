import { isStorable, isWellFormed } from '../platform/storable.ts'

const BYTES = 'base64:'
/** Marks a text that UTF-8 cannot represent. */
const UNITS = 'utf16:'

/** A body as a dead letter keeps it: text as it is, and other bytes marked and in base64. */
export function bodyText(body: string | Uint8Array): string {
  const text = typeof body === 'string' ? body : decoded(body)
  if (text !== undefined && isStorable(text) && !text.startsWith(BYTES) && !text.startsWith(UNITS)) return text
  if (typeof body === 'string' && !isWellFormed(body)) return UNITS + Buffer.from(body, 'utf16le').toString('base64')
  return BYTES + Buffer.from(body as Uint8Array).toString('base64')
}

/** The body itself. */
export function bodyOfText(text: string): string | Uint8Array {
  if (text.startsWith(BYTES)) return Buffer.from(text.slice(BYTES.length), 'base64')
  if (text.startsWith(UNITS)) return Buffer.from(text.slice(UNITS.length), 'base64').toString('utf16le')
  return text
}

const strict = new TextDecoder('utf-8', { fatal: true })

function decoded(bytes: Uint8Array): string | undefined {
  try {
    return strict.decode(bytes)
  } catch {
    return undefined
  }
}
