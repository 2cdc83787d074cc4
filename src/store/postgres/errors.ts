import { isOnceError, onceError, type OnceError } from '../../errors.ts'
import { CommitLost } from './driver.ts'
import { isConnectionLost, isTransient, sqlStateOf } from './sqlstate.ts'

/**
 * What a failed statement of ours means. Errors of the user's own statements never come through here: they are theirs.
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
    case '25P04':
    case '25P03':
    case '57014':
      return onceError('ONCE_DEADLINE', { cause: error })
  }
  if (isTransient(error)) return onceError('ONCE_CONFLICT', { cause: error })
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

/** Work of ours, with what its failure means. */
export async function told<T>(schema: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw storeError(error, schema)
  }
}

/** COMMIT also checks what the handler's statements deferred: such an error is the handler's own, not the store's. */
export function commitError(error: unknown, schema: string): unknown {
  return HANDLERS_OWN.test(sqlStateOf(error) ?? '') ? error : storeError(error, schema)
}

/** Data exceptions, constraint violations, errors raised by a trigger. */
const HANDLERS_OWN = /^(?:22|23|27|44|P0)/

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
