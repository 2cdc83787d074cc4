/** Every supported engine has these methods, but the compiler's language level does not list them yet. */
interface WellFormed {
  isWellFormed(): boolean
  toWellFormed(): string
}

/** Whether the text has no lone half of a surrogate pair, which UTF-8 cannot express. */
export function isWellFormed(text: string): boolean {
  return (text as string & WellFormed).isWellFormed()
}

/** Replaces each lone half of a surrogate pair by U+FFFD. */
export function toWellFormed(text: string): string {
  return (text as string & WellFormed).toWellFormed()
}

/** Whether every database can store the text unchanged. PostgreSQL cannot store NUL, in text or in JSON. */
export function isStorable(text: string): boolean {
  return !text.includes('\0') && isWellFormed(text)
}

const TIME_MS_MAX: number = Date.UTC(9999, 11, 31, 23, 59, 59, 999)

/** The nearest time that every database can read: from 1970 to 9999. */
export function storableTime(date: Date): Date {
  return new Date(Math.min(Math.max(date.getTime(), 0), TIME_MS_MAX))
}

export function isDate(value: unknown): value is Date {
  return value instanceof Date && !Number.isNaN(value.getTime())
}

/** Whether the value is a name of 1 to `bytesMax` bytes that every database can store unchanged. */
export function isName(value: unknown, bytesMax: number): value is string {
  return typeof value === 'string' && value !== '' && isStorable(value) && Buffer.byteLength(value) <= bytesMax
}

/** The text itself, or its escaped form if a database cannot store it. For names, which others look up unchanged. */
export function storable(text: string): string {
  return isStorable(text) ? text : spell(text)
}

/**
 * Escapes NUL and lone halves of surrogate pairs as `\u{0}` and `\u{d83d}`. If the text already contains such an
 * escape, its backslash becomes `\u{5c}`, so that different texts stay different.
 */
export function spell(text: string): string {
  if (isStorable(text) && !text.includes('\\u{')) return text
  return text.replaceAll(/\\(?=u\{)|\0|\p{Surrogate}/gu, (unit) => `\\u{${unit.charCodeAt(0).toString(16)}}`)
}

/** Reverses `spell`. */
export function unspell(text: string): string {
  if (!text.includes('\\u{')) return text
  return text.replaceAll(/\\u\{(0|5c|d[89a-f][0-9a-f]{2})\}/g, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  )
}

/** JSON text of a value. `write` writes its strings and member names. */
export function jsonWith(write: (text: string) => string, value: unknown): string {
  return JSON.stringify(written(write, value))
}

function written(write: (text: string) => string, value: unknown): unknown {
  if (typeof value === 'string') return write(value)
  if (Array.isArray(value)) return value.map((element) => written(write, element))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [write(name), written(write, member)]))
}
