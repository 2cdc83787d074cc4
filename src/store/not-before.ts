import { NOT_BEFORE_MS_MAX } from '../limits.ts'

/** A time that PostgreSQL and SQLite read alike; undefined: not a time, or long over. A far one is the year 9999. */
export function readNotBefore(text: string): string | undefined {
  const ms = Date.parse(text)
  return Number.isNaN(ms) || ms < 0 ? undefined : new Date(Math.min(ms, NOT_BEFORE_MS_MAX)).toISOString()
}
