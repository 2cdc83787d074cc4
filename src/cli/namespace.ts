import type { NamespaceRow } from '../store/namespaces.ts'
import type { SqlStore } from '../store/store.ts'
import type { Arguments } from './arguments.ts'
import { UsageError } from './usage.ts'

/** For a database without namespaces: the first namespace gets everything. */
const NOBODY = 'effectively-once'

/** Commands about the consumers and destinations of one namespace. */
const OF_ONE = /^(?:relay|forget|parked|dead-letters|redrive)\b/
/** Commands that show every namespace, unless one is named. A namespace that only runs operations has no number. */
const OF_ANY = /^operations\b/

/** Scopes are hashed with the name of their namespace. A namespace without a number has no events and no letters. */
async function named(
  namespaces: SqlStore<unknown>['namespaces'] | undefined,
  given: string | undefined,
): Promise<Named> {
  const known = (await namespaces?.list()) ?? []
  const name = given ?? (known.length === 1 ? known[0]?.name : undefined)
  if (name === undefined) throw new UsageError('erase needs --namespace NAME: the namespace of your program')
  return { name, no: known.find((one) => one.name === name)?.no }
}

/** `no` undefined: the namespace has no number. */
type Named = Omit<NamespaceRow, 'no'> & { readonly no: number | undefined }

/** The namespace that a command is about. If there are several, the command must name one. */
export async function namespaceOf(
  { namespaces }: Pick<SqlStore<unknown>, 'namespaces'>,
  { command, values }: Pick<Arguments, 'command' | 'values'>,
): Promise<Named> {
  const { namespace: name } = values
  if (command === 'erase') return named(namespaces, name)
  const known = OF_ANY.test(command) || OF_ONE.test(command) ? ((await namespaces?.list()) ?? []) : []
  const [first] = known
  if (!first) return { no: 0, name: name ?? NOBODY }
  const names = known.map((one) => one.name).join(', ')
  const found = name === undefined ? first : known.find((one) => one.name === name)
  if (OF_ANY.test(command))
    return found && (name !== undefined || known.length === 1) ? found : { no: 0, name: name ?? NOBODY }
  if (!found)
    throw new UsageError(`there is no namespace '${String(name).slice(0, 80)}' in this database; known: ${names}`)
  if (name === undefined && known.length > 1) {
    throw new UsageError(`${command} needs --namespace NAME: ${names} share this database`)
  }
  return found
}
