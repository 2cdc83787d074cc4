import { isOnceError, onceError } from '../../errors.ts'

/** SQLite's primary result codes (the low byte of what the libraries report). */
const BUSY = 5
const LOCKED = 6
const CONSTRAINT = 19

const OUR_TABLE_MISSING =
  /no such table: (?:\w+\.)?effectively_once_|effectively_once_\w+ has no column|no such column: /

function resultCode(error: unknown): number {
  const { errcode, rawCode } = (error ?? {}) as { errcode?: unknown; rawCode?: unknown }
  const code = errcode ?? rawCode
  return typeof code === 'number' ? code & 0xff : 0
}

/** Another connection, most likely of another process, holds the lock: wait and try again. */
export function isBusy(error: unknown): boolean {
  const code = resultCode(error)
  return code === BUSY || code === LOCKED
}

/** The same of a user's statement. What its own transaction locks out stays so, however often it runs. */
export function isTransient(error: unknown): boolean {
  return resultCode(error) === BUSY
}

export function isConstraint(error: unknown): boolean {
  return resultCode(error) === CONSTRAINT
}

export function isTableMissing(error: unknown): boolean {
  return error instanceof Error && OUR_TABLE_MISSING.test(error.message)
}

/** An error of one of our own statements, in the words of this package. A user's errors are thrown as they come. */
export function storeFailure(error: unknown, file: string): Error {
  if (isTableMissing(error)) {
    const detail = `The tables "effectively_once_…" are missing in "${file}". Run: npx effectively-once migrate`
    return onceError('ONCE_NOT_MIGRATED', { detail, cause: error })
  }
  return isOnceError(error) ? error : unavailable(file, error)
}

export function unavailable(file: string, cause: unknown): Error {
  const reason = cause instanceof Error ? cause.message : String(cause)
  return onceError('ONCE_STORE_UNAVAILABLE', { detail: `The store "${file}" cannot be used: ${reason}`, cause })
}
