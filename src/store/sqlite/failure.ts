import { isOnceError, onceError } from '../../errors.ts'

/** SQLite's primary result codes: the low byte of the code that the libraries report. */
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

/** Another connection, most likely of another process, holds the lock. Wait and try again. */
export function isBusy(error: unknown): boolean {
  const code = resultCode(error)
  return code === BUSY || code === LOCKED
}

/** The same for a user's statement. A lock conflict inside its own transaction is permanent, so only BUSY counts. */
export function isTransient(error: unknown): boolean {
  return resultCode(error) === BUSY
}

export function isConstraint(error: unknown): boolean {
  return resultCode(error) === CONSTRAINT
}

/** Does not use `instanceof`: in Jest, an error of `node:sqlite` has a class of another realm. */
export function isTableMissing(error: unknown): boolean {
  return OUR_TABLE_MISSING.test(String((error as Partial<Error> | undefined)?.message))
}

/** Translates an error of one of our own statements. A user's errors are thrown unchanged. */
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
