import { onceError, type OnceError } from '../../errors.ts'
import { invalid } from '../../options.ts'

/** What was there before namespaces belongs to one, and stays its own. */
export function adoptedElsewhere(name: string, owner: unknown): Error {
  const whose =
    typeof owner === 'string' ? `belongs to '${owner}'` : `cannot become '${name}'s, which has rows of its own`
  return invalid(`adopt: what was here before namespaces ${whose}`)
}

/** Several have left rows, and nobody said whose the others are. */
export function undecided(names: readonly string[]): OnceError {
  const detail = `${names.join(', ')} have left events in this database, and nothing tells whose its consumers and destinations are. Run: npx effectively-once migrate --adopt NAME`
  return onceError('ONCE_NAMESPACE_UNDECIDED', { detail })
}
