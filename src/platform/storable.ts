/** Part of every engine we run on; the language level we compile against does not list it yet. */
interface WellFormed {
  isWellFormed(): boolean
  toWellFormed(): string
}

/** Without half of a surrogate pair, which UTF-8 cannot say. */
export function isWellFormed(text: string): boolean {
  return (text as string & WellFormed).isWellFormed()
}

/** With U+FFFD instead of each half of a surrogate pair. */
export function toWellFormed(text: string): string {
  return (text as string & WellFormed).toWellFormed()
}

/** Every database holds it as it is: PostgreSQL has no place for NUL, in text or in JSON. */
export function isStorable(text: string): boolean {
  return !text.includes('\0') && isWellFormed(text)
}

const TIME_MS_MAX: number = Date.UTC(9999, 11, 31, 23, 59, 59, 999)

/** The nearest time that every database reads: from 1970 to 9999. */
export function storableTime(date: Date): Date {
  return new Date(Math.min(Math.max(date.getTime(), 0), TIME_MS_MAX))
}

export function isDate(value: unknown): value is Date {
  return value instanceof Date && !Number.isNaN(value.getTime())
}

/** A name that every database holds as it is, of 1 to `bytesMax` bytes. */
export function isName(value: unknown, bytesMax: number): value is string {
  return typeof value === 'string' && value !== '' && isStorable(value) && Buffer.byteLength(value) <= bytesMax
}

/** The text itself, or spelled out where no database can hold it. For names, which others look for as they are. */
export function storable(text: string): string {
  return isStorable(text) ? text : spell(text)
}

/**
 * NUL and half of a surrogate pair as `\u{0}` and `\u{d83d}`. The backslash of a text that reads like that already becomes
 * `\u{5c}`, so that no two texts are spelled alike.
 */
export function spell(text: string): string {
  if (isStorable(text) && !text.includes('\\u{')) return text
  return text.replaceAll(/\\(?=u\{)|\0|\p{Surrogate}/gu, (unit) => `\\u{${unit.charCodeAt(0).toString(16)}}`)
}

/** What was spelled. */
export function unspell(text: string): string {
  if (!text.includes('\\u{')) return text
  return text.replaceAll(/\\u\{(0|5c|d[89a-f][0-9a-f]{2})\}/g, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  )
}

/** JSON text of a value whose texts, and names of members, are written by `write`. */
export function jsonWith(write: (text: string) => string, value: unknown): string {
  return JSON.stringify(written(write, value))
}

function written(write: (text: string) => string, value: unknown): unknown {
  if (typeof value === 'string') return write(value)
  if (Array.isArray(value)) return value.map((element) => written(write, element))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [write(name), written(write, member)]))
}
