import { instanceOf } from '../../once/instance.ts'
import type { Once } from '../../once/types.ts'
import { invalid } from '../../options.ts'
import { messageOf } from '../../platform/readable-error.ts'
import type { Scenario } from '../simulate/simulate.ts'

/** What the module of the user exports. */
export interface Subject extends Scenario {
  // oxlint-disable-next-line no-explicit-any -- any instance
  readonly once: Once<any, any>
}

const WANTED = 'once, act(client) and check(), and reset() if needed'

/** Loads a module, by its names or by its default export. */
export async function loadSubject(module: string): Promise<Subject> {
  const loaded = await import(module).catch((error: unknown) => {
    throw invalid(`the module could not be loaded: ${messageOf(error)}`, error)
  })
  const found = subjectIn(loaded as object)
  const { once, act, check, reset } = found
  const wrong = Object.entries({ act, check, ...(reset === undefined ? {} : { reset }) }).find(
    ([, value]) => typeof value !== 'function',
  )
  if (wrong) {
    const [name, value] = wrong
    const what = value === undefined ? `does not export ${name}` : `exports ${name}, which is not a function`
    throw invalid(`the module ${what}. It must export ${WANTED}`)
  }
  try {
    instanceOf(once as Subject['once'])
  } catch {
    throw invalid(`the module does not export once, made by effectivelyOnce(). It must export ${WANTED}`)
  }
  return found as unknown as Subject
}

/** CommonJS modules have everything in `default`. */
function subjectIn(loaded: object): Readonly<Record<string, unknown>> {
  const names = loaded as Record<string, unknown>
  const inner = names['default']
  return names['act'] === undefined && typeof inner === 'object' && inner !== null
    ? (inner as Record<string, unknown>)
    : names
}
