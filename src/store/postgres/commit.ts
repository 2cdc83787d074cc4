import { commitError, sessionError } from './errors.ts'

/**
 * Translates the error of a failed commit. `meaning`: pass `storeError` if no handler can have made the transaction
 * READ ONLY.
 */
export function explained<T>(
  commit: Promise<T>,
  schema: string,
  meaning: typeof sessionError = sessionError,
): Promise<T> {
  return commit.catch((error: unknown) => {
    throw commitError(error, schema, meaning)
  })
}
