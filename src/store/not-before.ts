import { NOT_BEFORE_MS_MAX } from '../limits.ts'

/**
 * Returns a time that PostgreSQL and SQLite read alike. Undefined: not a time, or long past. Later times become the end
 * of the year 9999.
 */
export function readNotBefore(text: string): string | undefined {
  const ms = Date.parse(text)
  return Number.isNaN(ms) || ms < 0 ? undefined : new Date(Math.min(ms, NOT_BEFORE_MS_MAX)).toISOString()
}
