import { onceError } from '../../errors.ts'
import { libsqlClient } from './client-libsql.ts'
import { nodeLibrary } from './client-node.ts'
import type { OpenFile } from './client.ts'

/** Where the two libraries come from; replaced in tests. */
export interface Libraries {
  builtin(): unknown
  libsql(): Promise<unknown>
}

export const installed: Libraries = {
  // Not an import: `node:sqlite` does not exist on Node 20, and `getBuiltinModule` says so without an error.
  builtin: () => process.getBuiltinModule?.('node:sqlite'),
  libsql: async () => await import('libsql'),
}

/** `node:sqlite` where this Node has it, else `libsql`, else a sentence that says what to install. */
export async function findLibrary(libraries: Libraries = installed): Promise<OpenFile> {
  const builtin = libraries.builtin() as Parameters<typeof nodeLibrary>[0] | undefined
  if (builtin) return nodeLibrary(builtin)
  const libsql = (await libraries.libsql().catch(missing)) as { default: Parameters<typeof libsqlClient>[0] }
  return (file) => libsqlClient(libsql.default, file)
}

function missing(cause: unknown): never {
  const detail = 'sqliteStore() needs Node 22.13 or later, or the package libsql. Run: npm i libsql'
  throw onceError('ONCE_PEER_MISSING', { detail, cause })
}
