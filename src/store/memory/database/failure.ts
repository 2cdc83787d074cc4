import { onceError } from '../../../errors.ts'
import type { OnceCode, OnceError } from '../../../errors.ts'

/** An error of the database, with the same five-character code as in PostgreSQL. */
export class ServerError extends Error {
  override readonly name: string = 'ServerError'
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

/** The connection is broken. The last statement may or may not have been executed. */
export class LineBroken extends Error {
  override readonly name: string = 'LineBroken'
  readonly code: string = 'ECONNRESET'

  constructor(cause?: unknown) {
    super('the connection broke', cause === undefined ? undefined : { cause })
  }
}

/**
 * Thrown by a step: the client's connection is broken, but the server has not noticed. The transaction stays open until
 * its deadline.
 */
export class HalfOpen extends Error {
  override readonly name: string = 'HalfOpen'
}

export const uniqueViolation = (table: string): ServerError =>
  new ServerError('23505', `a row of ${table} with this key exists`)
export const transactionFailed = (): ServerError =>
  new ServerError('25P02', 'a statement failed before: the transaction can only be rolled back')
export const noSuchSavepoint = (name: string): ServerError =>
  new ServerError('3B001', `savepoint ${name} does not exist`)
/** The error of RAISE EXCEPTION in a trigger or a function. */
export const raised = (message: string): ServerError => new ServerError('P0001', message)
export const serializationFailure = (): ServerError => new ServerError('40001', 'could not serialize access')
export const deadlockDetected = (): ServerError => new ServerError('40P01', 'deadlock detected')
export const idleTooLong = (): ServerError => new ServerError('25P03', 'the transaction passed its deadline')
export const leaseTaken = (): ServerError => new ServerError('EO001', 'the lease was taken over')
export const claimEnded = (): ServerError =>
  new ServerError('EO002', 'the claiming transaction was ended by the handler')

export const setAsideMeanwhile = (): ServerError =>
  new ServerError('EO004', 'a message was set aside before its lock was taken')

/** Whether the whole transaction should be retried. */
export function isTransient(error: unknown): boolean {
  return error instanceof ServerError && (error.code === '40001' || error.code === '40P01')
}

/** Whether the server ended the transaction, and the connection with it. */
export function isDeadline(error: unknown): boolean {
  return error instanceof ServerError && error.code === '25P03'
}

const CODES: Readonly<Record<string, OnceCode>> = {
  EO001: 'ONCE_LEASE_LOST',
  EO002: 'ONCE_TX_TAKEN',
  EO004: 'ONCE_CONFLICT',
  '3B001': 'ONCE_TX_TAKEN',
  '25P01': 'ONCE_TX_REQUIRED',
  '25P02': 'ONCE_ROLLED_BACK',
  '25P03': 'ONCE_DEADLINE',
  '40001': 'ONCE_CONFLICT',
  '40P01': 'ONCE_CONFLICT',
}

/** The codes of data exceptions, constraint violations, and errors that a trigger raises. */
const HANDLERS_OWN = /^(?:22|23|27|44|P0)/

/** COMMIT also checks constraints that the handler's statements deferred. Such an error is the handler's own. */
export function commitFailure(error: unknown): OnceError | Error {
  if (error instanceof LineBroken) return onceError('ONCE_COMMIT_UNKNOWN', { cause: error })
  return error instanceof ServerError && HANDLERS_OWN.test(error.code) ? error : storeFailure(error)
}

/**
 * The error that the store reports when one of its own statements fails. Errors of the user's statements stay
 * unchanged.
 */
export function storeFailure(error: unknown): OnceError | Error {
  if (error instanceof LineBroken) return onceError('ONCE_STORE_UNAVAILABLE', { cause: error })
  if (!(error instanceof ServerError)) return error as Error
  return onceError(CODES[error.code] ?? 'ONCE_STORE_UNAVAILABLE', { cause: error })
}
