import type { Facts } from './facts.ts'
import { inspectPostgres } from './inspect-postgres.ts'
import { inspectSqlite } from './inspect-sqlite.ts'
import type { Opened } from './open-store.ts'

export async function inspect(opened: Opened): Promise<Facts> {
  const looked = opened.schema === null ? await inspectSqlite(opened) : await inspectPostgres(opened, opened.schema)
  const { inbox, redrives } = opened.store
  return {
    ...looked,
    letters: (await inbox?.letters.count({ filter: { states: ['parked'] } })) ?? {
      total: 0,
      oldestAt: null,
      groups: [],
    },
    redrives: ((await redrives?.list({ limit: 20 })) ?? []).filter(
      ({ state }) => state !== 'done' && state !== 'aborted',
    ),
  }
}
