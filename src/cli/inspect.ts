import { instanceOf } from '../once/instance.ts'
import { oldest, statusIn, type Status } from '../once/status.ts'
import { partsOf } from '../store/namespaced/names.ts'
import { seenNamespacesSql } from '../store/postgres/sql/namespace.ts'
import { SEEN_NAMESPACES } from '../store/sqlite/namespace-tables.ts'
import type { Facts } from './facts.ts'
import { inspectPostgres } from './inspect-postgres.ts'
import { inspectSqlite } from './inspect-sqlite.ts'
import type { Opened } from './open-store.ts'

/** The namespaces that have events in a database from before namespaces. */
export async function seenNamespaces({ schema, query, store }: Opened): Promise<readonly string[]> {
  // If numbers were assigned, the owners are known.
  if ((await store.namespaces?.list().catch(() => undefined)) !== undefined) return []
  const rows = await query(schema === null ? SEEN_NAMESPACES : seenNamespacesSql(schema))
  return rows.map((row) => String(row['name'])).sort()
}

/** Reads the facts of every namespace, with the names that programs use. */
export async function inspect(opened: Opened): Promise<Facts> {
  const { store, once, schema } = opened
  const looked = schema === null ? await inspectSqlite(opened) : await inspectPostgres(opened, schema)
  const known = (await store.namespaces?.list()) ?? []
  // No namespace is registered, so all rows belong to the first one.
  const owners = known.length > 0 ? known.toSorted((a, b) => a.no - b.no) : [{ no: 0, name: null }]
  const { core } = instanceOf(once)
  const found: { no: number; name: string | null; status: Status }[] = []
  for (const owner of owners) found.push({ ...owner, status: await statusIn(core, null, owner.no) })
  const nameOf = (no: number): string | null => owners.find((one) => one.no === no)?.name ?? null
  const redrives = ((await store.redrives?.list({ limit: 20 })) ?? []).filter(
    ({ state }) => state !== 'done' && state !== 'aborted',
  )
  // Operations, sizes and sweeps are the same for all namespaces.
  const [first] = found as [(typeof found)[number]]
  const all = <T>(of: (status: Status) => readonly T[]): (T & { namespace: string | null })[] =>
    found.flatMap(({ name, status }) => of(status).map((one) => ({ ...one, namespace: name })))
  return {
    ...first.status,
    ...looked,
    namespaces: found.map(({ no, name, status: { unsent, deadLetters } }) => ({
      no,
      name,
      unsent,
      letters: deadLetters.parked,
    })),
    unsent: {
      events: found.reduce((sum, { status }) => sum + status.unsent.events, 0),
      oldestMs: oldest(found.map(({ status }) => status.unsent.oldestMs)),
    },
    deadLetters: {
      parked: found.reduce((sum, { status }) => sum + status.deadLetters.parked, 0),
      oldestMs: oldest(found.map(({ status }) => status.deadLetters.oldestMs)),
    },
    destinations: all(({ destinations }) => destinations),
    consumers: all(({ consumers }) => consumers),
    rewinds: looked.rewinds.map(({ no, ...one }) => ({ ...one, namespace: nameOf(no) })),
    redrives: redrives.map((one) => {
      const { no, name: consumer } = partsOf(one.consumer)
      return { ...one, consumer, namespace: nameOf(no) }
    }),
  }
}
