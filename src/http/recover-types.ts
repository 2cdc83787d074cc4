import type { Committed, LeasedOperation } from '../operation/types.ts'
import type { Events } from '../outbox/event.ts'
import type { HeaderPairs } from './headers.ts'

/** The stored request of an abandoned operation. Headers are not stored, because they hold credentials. */
export interface RecoverInput {
  readonly method: string
  /** Path and query, as the client sent them. */
  readonly target: string
  /** JSON as a value, other text as a string, anything else as bytes. */
  readonly body: unknown
}

/** The answer that the client gets when it comes back. */
export interface RecoveredAnswer {
  status: number
  headers?: HeaderPairs
  /** A string and bytes are sent as they are, any other value as JSON. */
  body?: unknown
}

/** Finishes an abandoned operation without its client. It must commit the answer that the handler would have given. */
export type RecoverRoute<Tx, E extends Events> = (
  input: RecoverInput,
  op: LeasedOperation<Tx, E>,
) => Promise<Committed<RecoveredAnswer>>
