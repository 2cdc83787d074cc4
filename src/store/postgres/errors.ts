import { isOnceError, onceError, type OnceError } from '../../errors.ts'
import { CommitLost, CommitRefused } from './driver/driver.ts'
import {
  isConnectionLost,
  isPlanStale,
  isPreparedStatementLost,
  isRaised,
  isTransient,
  sqlStateOf,
} from './driver/sqlstate.ts'

/**
 * Only this file decides who caused an error. This function translates the error of one of our own statements. Errors
 * of the user's statements never pass through it: they stay as they are, whatever their code.
 */
export function storeError(error: unknown, schema: string): OnceError {
  if (isOnceError(error)) return error
  if (error instanceof CommitLost) return onceError('ONCE_COMMIT_UNKNOWN', { cause: error })
  switch (sqlStateOf(error) ?? '') {
    case 'EO001':
      return onceError('ONCE_LEASE_LOST', { cause: error })
    case 'EO002':
      return onceError('ONCE_TX_TAKEN', { cause: error })
    case 'EO004':
      return onceError('ONCE_CONFLICT', { cause: error })
    case 'EO005':
      return onceError('ONCE_NAMESPACE_UNDECIDED', {
        detail: `${messageOf(error).replace(/^.*effectively-once: /s, '')}. Run: npx effectively-once migrate --adopt NAME`,
        cause: error,
      })
    // Our own statements name only our own savepoints.
    case '3B001':
      return onceError('ONCE_TX_TAKEN', {
        detail: 'The handler released, or rolled back to, a savepoint that is older than its operation',
        cause: error,
      })
    case '25P01':
      return onceError('ONCE_TX_REQUIRED', { cause: error })
    case '25P02':
      return onceError('ONCE_ROLLED_BACK', { cause: error })
    case '3F000':
    case '42P01':
    case '42703':
    case '42883':
      return onceError('ONCE_NOT_MIGRATED', {
        detail: `Schema ${schema} is missing or incomplete in this database. Run: npx effectively-once migrate`,
        cause: error,
      })
    case '42501':
      return onceError('ONCE_RIGHTS_MISSING', {
        detail: `This role lacks a right in schema ${schema}: ${messageOf(error)}`,
        cause: error,
      })
    case READ_ONLY:
      return readOnlyDatabase(error)
    case '25P04':
    case '25P03':
    case '57014':
      return onceError('ONCE_DEADLINE', { cause: error })
    // The role or the database limits how long a statement waits for a lock.
    case '55P03':
      return onceError('ONCE_CONFLICT', { cause: error })
  }
  // A lost or stale prepared statement is prepared again, or sent unprepared.
  if (isTransient(error) || isPreparedStatementLost(error) || isPlanStale(error)) {
    return onceError('ONCE_CONFLICT', { cause: error })
  }
  if (isConnectionLost(error)) {
    return onceError('ONCE_STORE_UNAVAILABLE', {
      detail: `The store cannot be reached: ${messageOf(error)}`,
      cause: error,
    })
  }
  return onceError('ONCE_STORE_UNAVAILABLE', {
    detail: `The store refused a statement: ${messageOf(error)}`,
    cause: error,
  })
}

const READ_ONLY = '25006'

/** The program did not ask for a read-only transaction. After a failover, a retry reaches the new primary. */
export function readOnlyDatabase(cause?: unknown): OnceError {
  const detail = 'The database accepts no writes: it is a standby, or default_transaction_read_only is on'
  return onceError('ONCE_STORE_UNAVAILABLE', { detail, cause })
}

/**
 * The error of a statement in a session's transaction. A session begins only where writes are possible. If a write is
 * refused later, the handler made the transaction READ ONLY.
 */
export function sessionError(error: unknown, schema: string): OnceError {
  if (sqlStateOf(error) !== READ_ONLY) return storeError(error, schema)
  return onceError('ONCE_TX_TAKEN', { detail: 'The handler made its transaction READ ONLY', cause: error })
}

/** Runs our own work, and translates its errors. */
export async function told<T>(schema: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw storeError(error, schema)
  }
}

/**
 * The error of one of our statements that carries the user's data. If the database refuses the data, the error is the
 * user's.
 */
export function writeError(error: unknown, schema: string, meaning: typeof sessionError = sessionError): unknown {
  return USERS_DATA.test(sqlStateOf(error) ?? '') ? error : meaning(error, schema)
}

/** Data exceptions, constraint violations, program limits, and errors that a trigger raised. */
const USERS_DATA = /^(?:22|23|27|44|54|P0)/

/**
 * The last statement before COMMIT is ours. COMMIT itself checks only what the user's statements deferred. So its error
 * is the user's, whatever its code, unless the server itself failed.
 */
export function commitError(error: unknown, schema: string, meaning: typeof sessionError = sessionError): unknown {
  if (!(error instanceof CommitRefused)) return writeError(error, schema, meaning)
  const { cause } = error
  return SERVERS_OWN.test(sqlStateOf(cause) ?? '') && !isRaised(cause) ? storeError(cause, schema) : cause
}

/** Out of resources, cancelled by an operator or a timeout, I/O errors, internal errors. */
const SERVERS_OWN = /^(?:53|57014|58|F0|XX)/

/** The server's message. Drizzle wraps it in an error that quotes the statement's parameters. */
function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return (error.cause instanceof Error ? error.cause : error).message
}
