import { fileStorage, sqliteStorage, type SqliteLike } from '../../../src/entry/client-node.ts'
import type { CallStorage } from '../../../src/client/types.ts'

type Opens = new (path: string) => SqliteLike

/** The class of each library that opens a SQLite file. */
const LIBRARIES = { 'node:sqlite': 'DatabaseSync', 'bun:sqlite': 'Database', libsql: 'default' } as const

export type StorageKind = 'file' | keyof typeof LIBRARIES

export async function openStorage(kind: StorageKind, path: string): Promise<CallStorage> {
  if (kind === 'file') return fileStorage({ folder: path })
  // Only some runtimes have the module, so its types are not known here.
  const library = (await import(kind)) as Record<string, Opens>
  const Database = library[LIBRARIES[kind]] as Opens
  return sqliteStorage(new Database(path))
}
