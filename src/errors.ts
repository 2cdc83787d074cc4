/**
 * One table, one class. A row has the HTTP status, whether the caller may retry the same request, and the message.
 * Problem documents, docs and the command line use these messages. Match by code (`isOnceError(error,
 * 'ONCE_IN_FLIGHT')`), never by `instanceof`: a process may load two copies of the package.
 */
import { CodedError, type CodedErrorOptions } from './coded-error.ts'

/** code: [status, retryable, message] */
const TABLE = {
  // the key and the request
  ONCE_KEY_MISSING: [400, false, 'This operation needs an idempotency key'],
  ONCE_KEY_INVALID: [400, false, 'The idempotency key is not valid'],
  ONCE_KEY_TWICE: [400, false, 'The idempotency key was sent more than once'],
  ONCE_BODY_INVALID: [400, false, 'The body is not valid for its content type'],
  ONCE_BODY_TOO_LARGE: [413, false, 'The body is too large to be read before the operation starts'],
  ONCE_MISMATCH: [422, false, 'This key was used for a different request'],
  ONCE_IN_FLIGHT: [409, true, 'An operation with this key is running'],
  ONCE_OUTCOME_UNKNOWN: [409, false, 'This operation died inside an outside call; its outcome is not known yet'],
  ONCE_UNREPLAYABLE: [409, false, 'This operation is done, but its answer was not kept'],
  ONCE_GONE: [410, false, 'This key was used too long ago to replay its answer'],
  // the store and the commit
  ONCE_STORE_UNAVAILABLE: [503, true, 'The store cannot be reached; nothing was run'],
  ONCE_COMMIT_UNKNOWN: [503, true, 'The reply to COMMIT was lost; retry with the same key to learn the outcome'],
  ONCE_CONFLICT: [503, true, 'The operation conflicted with other transactions; nothing was committed'],
  ONCE_DEADLINE: [503, true, 'The operation passed its deadline; nothing was committed'],
  ONCE_LEASE_LOST: [503, true, 'Another attempt took this operation over; nothing was committed here'],
  ONCE_QUEUE_FULL: [503, true, 'Too many operations are waiting'],
  ONCE_ROLLED_BACK: [500, false, 'The database rolled the transaction back, but the handler continued'],
  ONCE_NOT_MIGRATED: [500, false, 'The schema "effectively_once" is missing. Run: npx effectively-once migrate'],
  ONCE_SCHEMA_NEWER: [500, false, 'The database schema is newer than this code'],
  ONCE_RIGHTS_MISSING: [500, false, 'The database role of this connection lacks a right that it needs'],
  ONCE_NAMESPACE_UNDECIDED: [
    500,
    false,
    'This database has rows from before namespaces, and their owner is not known. Run: npx effectively-once migrate --adopt NAME',
  ],
  ONCE_NAMESPACES_FULL: [500, false, 'This schema has as many namespaces as it can hold. Use another schema'],
  ONCE_CLOSED: [503, true, 'This instance was closed; nothing was run'],
  ONCE_PEER_MISSING: [500, false, 'A required package is not installed'],
  ONCE_UNSUPPORTED: [500, false, 'This store does not support the call'],
  // what the program says
  ONCE_SCOPE_EMPTY: [
    500,
    false,
    "scope is empty; one user could replay another's answer. Return a string or set 'global'",
  ],
  ONCE_OPTION_INVALID: [500, false, 'An option is not valid'],
  ONCE_INPUT_INVALID: [500, false, 'The input cannot be fingerprinted'],
  ONCE_ANSWER_INVALID: [500, false, 'The answer cannot be stored'],
  ONCE_ANSWER_TOO_LARGE: [500, false, 'The answer is too large to hold until the commit'],
  ONCE_NO_ANSWER: [
    500,
    false,
    'The handler returned without a response. Send a response, or return the promise that sends it',
  ],
  ONCE_BODY_UNSEEN: [500, false, 'The request has a body that the fingerprint did not see'],
  ONCE_STREAM: [500, false, 'This route streams its answer, which cannot be replayed'],
  ONCE_STREAM_FAILED: [409, false, 'The stream failed before it was complete, and cannot continue'],
  ONCE_STREAM_INTERRUPTED: [
    503,
    true,
    'No process produces this stream now; repeat the request with the same key to continue',
  ],
  ONCE_STREAM_POSITION: [416, false, 'The recorded stream has no such position'],
  ONCE_TX_CLOSED: [500, false, 'tx was used after its operation ended. Await every query'],
  ONCE_TX_TAKEN: [
    500,
    false,
    'The handler ended the transaction itself. Leave begin, commit and rollback to the operation',
  ],
  ONCE_TX_REQUIRED: [500, false, 'join() needs an open transaction'],
  ONCE_TX_ISOLATION: [
    500,
    false,
    'join() needs READ COMMITTED; stricter levels hide the record of a running duplicate',
  ],
  ONCE_NESTED_LEASE: [500, false, 'A leased operation cannot run inside another operation'],
  ONCE_STEP_INVALID: [500, false, 'The step is not valid'],
  ONCE_STEP_PENDING: [500, false, 'A step began while its operation was committing. Begin every step before commit'],
  ONCE_STEP_OPEN: [503, true, 'The operation cannot be refused yet: a call that must be undone may have been made'],
  ONCE_UNDOING: [503, true, 'This operation is refused and its steps are being undone; no other step begins'],
  ONCE_UNDO_FAILED: [503, true, 'This operation is refused, but a step is not undone yet. Retry with the same key'],
  ONCE_NOT_COMMITTED: [500, false, 'A leased handler must return commit(...)'],
  // events
  ONCE_EVENT_UNKNOWN: [500, false, 'This event type is not in the catalogue'],
  ONCE_EVENT_INVALID: [500, false, 'The event data is not valid'],
  ONCE_EVENT_TOO_LARGE: [500, false, 'The event data is too large'],
  ONCE_OUTBOX_WAITING: [500, false, 'Events wait and nothing sends them. Call once.relay({ to }).start()'],
  // consumers
  ONCE_SIGNATURE_INVALID: [401, false, 'The signature is missing or does not match the body'],
  ONCE_TIMESTAMP_STALE: [401, false, 'The timestamp is too far from now'],
  ONCE_HORIZON_SHORT: [500, false, 'A late redelivery would be taken for a new message. Raise rememberFor'],
  ONCE_SOURCE_RECREATED: [
    500,
    false,
    'The topic or stream was deleted and recreated. The stored positions belong to the old one',
  ],
  ONCE_REDRIVE_REFUSED: [409, false, 'The redrive was refused; nothing runs'],
  ONCE_REDRIVE_UNKNOWN: [404, false, 'There is no such redrive, or its state does not allow the call'],
  // the client
  ONCE_CALL_PENDING: [503, true, 'The outcome of this call is not known. The call stays pending, with its key'],
  ONCE_CIRCUIT_OPEN: [503, true, 'This server failed too often; nothing was sent'],
  ONCE_STORAGE_FAILED: [503, true, 'The storage of the client failed; nothing was sent'],
  ONCE_BODY_UNREPLAYABLE: [500, false, 'This body cannot be sent a second time'],
  // reconciliation
  ONCE_SIDE_INVALID: [500, false, 'A side of the reconciliation cannot be compared'],
  // the development guard
  ONCE_TX_BYPASSED: [
    500,
    false,
    'The handler queried the pool. Only tx commits with the key; after a crash the retry repeats this query. Use tx',
  ],
  ONCE_NOTHING_WRITTEN: [500, false, 'The operation committed without writing a row through tx'],
  ONCE_OUTSIDE_CALL: [
    500,
    false,
    "The handler made an outside call inside its transaction. Add lease: '30s' and put the call in step()",
  ],
  ONCE_POOL_STARVED: [
    500,
    false,
    'Operations hold all connections, and one of them waits for another connection. Use tx',
  ],
  ONCE_KEY_CHURN: [500, false, 'Equal requests came with different keys. Make one key per intention, not per retry'],
  ONCE_SCOPE_SHARED: [500, false, 'One key came from two callers who share one scope. Return the caller from scope'],
  ONCE_WRITER_HELD: [500, false, 'A handler held the only writer too long. Await nothing but tx, or use a lease'],
  ONCE_INVARIANT: [500, false, 'An internal assumption does not hold; this is a defect in effectively-once'],
} as const

export type OnceCode = keyof typeof TABLE

export interface ErrorFacts {
  readonly status: number
  readonly retryable: boolean
  readonly message: string
}

export const ERRORS: { readonly [Code in OnceCode]: ErrorFacts } = Object.fromEntries(
  Object.entries(TABLE).map(([code, [status, retryable, message]]) => [code, { status, retryable, message }]),
) as { [Code in OnceCode]: ErrorFacts }

export type OnceErrorOptions = CodedErrorOptions

export class OnceError extends CodedError {
  declare readonly code: OnceCode

  constructor(code: OnceCode, options: OnceErrorOptions = {}) {
    super(code, TABLE[code], options)
  }

  /** Also true for errors of the client, and of another copy of this package. */
  static override [Symbol.hasInstance](error: unknown): boolean {
    return isOnceError(error)
  }
}

export function onceError(code: OnceCode, options?: OnceErrorOptions): OnceError {
  return new OnceError(code, options)
}

export function isOnceError(error: unknown, code?: OnceCode): error is OnceError {
  const candidate = error as Partial<OnceError> | null
  try {
    return candidate?.name === 'OnceError' && (code === undefined || candidate.code === code)
  } catch {
    // Anything can be thrown, even an object that throws when it is read.
    return false
  }
}

/** The problem type of RFC 9457 is the code in kebab case. */
export function problemTypeOf(code: OnceCode): string {
  return code.slice('ONCE_'.length).toLowerCase().replaceAll('_', '-')
}
