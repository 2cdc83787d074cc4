import { onceError } from '../errors.ts'

/** Loads an export of an optional peer dependency, which the compiler does not follow. `what` needs the package. */
export async function loadPeer<T>(what: string, name: string, exported: string, install: string = name): Promise<T> {
  type Loaded = Readonly<Record<string, T | undefined>>
  let loaded: Loaded & { readonly default?: Loaded }
  try {
    loaded = (await import(name)) as typeof loaded
  } catch (cause) {
    throw onceError('ONCE_PEER_MISSING', { detail: `${what} needs the package ${name}. Run: npm i ${install}`, cause })
  }
  const found = loaded[exported] ?? loaded.default?.[exported]
  if (found !== undefined) return found
  throw onceError('ONCE_PEER_MISSING', {
    detail: `The package ${name} has no ${exported}. Run: npm i ${install}@latest`,
  })
}
