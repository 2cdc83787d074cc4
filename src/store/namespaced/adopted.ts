import { onceError, type OnceError } from '../../errors.ts'
import { invalid } from '../../options.ts'

/** The rows from before namespaces belong to one namespace, and never change their owner. */
export function adoptedElsewhere(name: string, owner: unknown): Error {
  const whose =
    typeof owner === 'string' ? `belong to '${owner}'` : `cannot be assigned to '${name}', which has its own rows`
  return invalid(`adopt: the rows from before namespaces ${whose}`)
}

/** Several namespaces have events, so the owner of the other rows cannot be inferred. */
export function undecided(names: readonly string[]): OnceError {
  const detail = `${names.join(', ')} have events in this database, but the owner of its consumers and destinations is not known. Run: npx effectively-once migrate --adopt NAME`
  return onceError('ONCE_NAMESPACE_UNDECIDED', { detail })
}
