import { stat } from 'node:fs/promises'
import type { DatabaseIdentity } from '../database-identity.ts'
import { unavailable } from './failure.ts'
import type { Reader } from './reader.ts'

/**
 * Every process that opens the file sees the same inode. A copy of the file has another one, and so has a backup that
 * replaced the file.
 */
export async function fileIdentity(reader: Reader): Promise<DatabaseIdentity> {
  const same = { server: '', timeline: '' }
  const [main] = await reader.all("select file from pragma_database_list where name = 'main'")
  const file = String(main?.['file'] ?? '')
  // A database in memory has no file, and nobody else sees it.
  if (file === '') return { ...same, database: '' }
  const { ino } = await stat(file, { bigint: true }).catch((error: unknown) => {
    throw unavailable(file, error)
  })
  return { ...same, database: String(ino) }
}
