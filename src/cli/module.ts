import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { UsageError } from './usage.ts'

/** Loads a module of the user's own. `what` names the option or argument, for the error. */
export async function loadModule(file: string, what: string): Promise<Readonly<Record<string, unknown>>> {
  try {
    return (await import(pathToFileURL(resolve(file)).href)) as Readonly<Record<string, unknown>>
  } catch (error) {
    const reason = error instanceof Error ? error.message.split('\n', 1)[0] : String(error)
    throw new UsageError(`${what} cannot be loaded: ${reason}`)
  }
}
