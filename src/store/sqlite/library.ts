import { isOnceError, onceError } from '../../errors.ts'
import { libsqlClient } from './client-libsql.ts'
import { nodeLibrary } from './client-node.ts'
import type { OpenFile } from './client.ts'

/** Loads the two libraries. Tests replace it. */
export interface Libraries {
  builtin(): unknown
  libsql(): Promise<unknown>
}

export const installed: Libraries = {
  // An import would fail on Node 20, which has no `node:sqlite`. `getBuiltinModule` returns undefined there.
  builtin: () => process.getBuiltinModule?.('node:sqlite'),
  // esbuild leaves an import with a `catch` to run time. Otherwise a program without libsql could not be bundled.
  libsql: async () => await import('libsql').catch(missing),
}

/** Returns `node:sqlite` if this Node has it, otherwise `libsql`. Otherwise the error says what to install. */
export async function findLibrary(libraries: Libraries = installed): Promise<OpenFile> {
  const builtin = libraries.builtin() as Parameters<typeof nodeLibrary>[0] | undefined
  if (builtin) return nodeLibrary(builtin)
  const libsql = (await libraries.libsql().catch(missing)) as { default: Parameters<typeof libsqlClient>[0] }
  return (file) => libsqlClient(libsql.default, file)
}

function missing(cause: unknown): never {
  if (isOnceError(cause)) throw cause
  const detail = 'sqliteStore() needs Node 22.13 or later, or the package libsql. Run: npm i libsql'
  throw onceError('ONCE_PEER_MISSING', { detail, cause })
}
