import { commitError, sessionError } from './errors.ts'

/** A commit, with what its failure means. `meaning`: where no handler ran alone. */
export function explained<T>(
  commit: Promise<T>,
  schema: string,
  meaning: typeof sessionError = sessionError,
): Promise<T> {
  return commit.catch((error: unknown) => {
    throw commitError(error, schema, meaning)
  })
}
