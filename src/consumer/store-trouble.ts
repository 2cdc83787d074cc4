import { isOnceError, type OnceCode } from '../errors.ts'

const TROUBLE = new Set<OnceCode>([
  'ONCE_STORE_UNAVAILABLE',
  'ONCE_COMMIT_UNKNOWN',
  'ONCE_CONFLICT',
  'ONCE_QUEUE_FULL',
  'ONCE_NOT_MIGRATED',
  'ONCE_CLOSED',
])

/** The store's own trouble, which counts against no message: it will be tried again for as long as it lasts. */
export function isStoreTrouble(error: unknown): boolean {
  return isOnceError(error) && TROUBLE.has(error.code)
}
