import { onceError, type OnceError } from '../../errors.ts'
import { invalid } from '../../options.ts'
import type { TakeTurn } from '../store.ts'
import { takesTransaction } from './driver/control.ts'

/** The state of a handle. At first only ending the transaction is refused. After `revoke`, everything is refused. */
export interface RevocableHandle {
  /** The error to refuse with, or nothing. It is called right before a statement reaches the connection. */
  refusal(text?: unknown): OnceError | undefined
  /** Sends the statement, when it is its turn. */
  send<T>(statement: () => Promise<T>): Promise<T>
  revoke(): void
}

export function revocableHandle(takeTurn?: TakeTurn): RevocableHandle {
  let revoked = false
  return {
    send: (statement) => takeTurn?.(statement) ?? statement(),
    refusal(text) {
      if (revoked) return onceError('ONCE_TX_CLOSED')
      return typeof text === 'string' && takesTransaction(text) ? onceError('ONCE_TX_TAKEN') : undefined
    },
    revoke() {
      revoked = true
    },
  }
}

/** Throws one clear sentence if a handle or an option is not of the right kind. */
export function requireThat(condition: unknown, detail: string): asserts condition {
  if (!condition) throw invalid(detail)
}

/** Whether `handle` has all these methods. This structural check recognizes the object that we expect. */
export function hasMethods(handle: unknown, names: readonly string[]): boolean {
  if ((typeof handle !== 'object' && typeof handle !== 'function') || handle === null) return false
  return names.every((name) => typeof (handle as Record<string, unknown>)[name] === 'function')
}
