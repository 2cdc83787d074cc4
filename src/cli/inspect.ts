import { partsOf } from '../store/namespaced/names.ts'
import type { LetterCounts } from '../store/dead-letters.ts'
import { seenNamespacesSql } from '../store/postgres/sql/namespace.ts'
import { SEEN_NAMESPACES } from '../store/sqlite/namespace-tables.ts'
import type { Facts } from './facts.ts'
import { inspectPostgres } from './inspect-postgres.ts'
import { inspectSqlite } from './inspect-sqlite.ts'
import type { Opened } from './open-store.ts'

const NO_LETTERS: LetterCounts = { total: 0, oldestAt: null, groups: [] }

/** Of a database from before: who has left events in it. */
export async function seenNamespaces({ schema, query, store }: Opened): Promise<readonly string[]> {
  // Who has numbers was decided when they were given.
  if ((await store.namespaces?.list().catch(() => undefined)) !== undefined) return []
  const rows = await query(schema === null ? SEEN_NAMESPACES : seenNamespacesSql(schema))
  return rows.map((row) => String(row['name'])).sort()
}

/** What there is, by the names that programs use, and whose it is. */
export async function inspect(opened: Opened): Promise<Facts> {
  const looked = opened.schema === null ? await inspectSqlite(opened) : await inspectPostgres(opened, opened.schema)
  const { inbox, redrives } = opened.store
  const nameOf = (no: number): string | null => looked.namespaces.find((one) => one.no === no)?.name ?? null
  const whose = (stored: string): { name: string; namespace: string | null } => {
    const { no, name } = partsOf(stored)
    return { name, namespace: nameOf(no) }
  }
  const inOrder = (a: { readonly name: string }, b: { readonly name: string }): number =>
    partsOf(a.name).no - partsOf(b.name).no
  const letters = (await inbox?.letters.count({ filter: { states: ['parked'] } })) ?? NO_LETTERS
  const active = ((await redrives?.list({ limit: 20 })) ?? []).filter(
    ({ state }) => state !== 'done' && state !== 'aborted',
  )
  return {
    ...looked,
    namespaces: await Promise.all(
      looked.namespaces.map(async (one) => {
        const filter = { states: ['parked'] as const, namespace: one.no }
        return { ...one, letters: (await inbox?.letters.count({ filter }))?.total ?? 0 }
      }),
    ),
    unsent: {
      events: looked.namespaces.reduce((sum, { unsent }) => sum + unsent.events, 0),
      oldestMs: looked.namespaces.reduce<number | null>((oldest, { unsent }) => later(oldest, unsent.oldestMs), null),
    },
    destinations: looked.destinations.toSorted(inOrder).map((one) => ({ ...one, ...whose(one.name) })),
    consumers: looked.consumers.toSorted(inOrder).map((one) => ({ ...one, ...whose(one.name) })),
    letters: { ...letters, groups: letters.groups.map((one) => ({ ...one, consumer: partsOf(one.consumer).name })) },
    rewinds: looked.rewinds.map(({ no, ...one }) => ({ ...one, namespace: nameOf(no) })),
    redrives: active.map((one) => {
      const { name: consumer, namespace } = whose(one.consumer)
      return { ...one, consumer, namespace }
    }),
  }
}

function later(a: number | null, b: number | null): number | null {
  return a === null || b === null ? (a ?? b) : Math.max(a, b)
}
