import { isOnceError, type OnceCode } from '../errors.ts'

const TROUBLE = new Set<OnceCode>([
  'ONCE_STORE_UNAVAILABLE',
  'ONCE_COMMIT_UNKNOWN',
  'ONCE_CONFLICT',
  'ONCE_QUEUE_FULL',
  'ONCE_NOT_MIGRATED',
  'ONCE_CLOSED',
])

/** Trouble of the store itself. No message loses an attempt, and the work is tried again until the trouble is over. */
export function isStoreTrouble(error: unknown): boolean {
  return isOnceError(error) && TROUBLE.has(error.code)
}
