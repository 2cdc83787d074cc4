import { startServers } from '../../scripts/servers/index.ts'
import { memoryBed } from './bed-memory.ts'
import { postgresBed } from './bed-postgres.ts'
import { sqliteBed } from './bed-sqlite.ts'
import type { Bed, Deadline } from './bed.ts'
import type { StoreName } from './program.ts'

/** A bed with everything that it needs, and how to end all of it. */
export async function openBed(store: StoreName, deadline?: Deadline): Promise<{ bed: Bed; close(): Promise<void> }> {
  if (store === 'memory') return withClose(memoryBed(deadline))
  if (store === 'sqlite' || store === 'sqlite-shared') return withClose(await sqliteBed({ store, deadline }))
  const servers = await startServers(['postgres'])
  if ('missing' in servers.postgres) throw new Error(`no PostgreSQL: ${servers.postgres.missing}`)
  try {
    const bed = await postgresBed(servers.postgres.url, { deadline })
    return {
      bed,
      async close() {
        await bed.close()
        await servers.stop()
      },
    }
  } catch (error) {
    await servers.stop()
    throw error
  }
}

function withClose(bed: Bed): { bed: Bed; close(): Promise<void> } {
  return { bed, close: () => bed.close() }
}
