import { NAMESPACES_MAX } from '../../../limits.ts'
import type { NamespaceRow } from '../../namespaces.ts'
import type { Work } from '../database/connection.ts'

/**
 * Returns the number of a namespace, and registers a new one. Returns null when another transaction is registering one,
 * or when no number is left. It never waits, because such a transaction holds the lock until it ends.
 */
export async function registerNamespace({ database, tx }: Work, name: string): Promise<number | null> {
  const known = database.namespaces.rows(tx).find(([, row]) => row.name === name)
  if (known !== undefined) return known[1].no
  if (!tx.tryAdvisory('namespaces')) return null
  const no = database.namespaces.rows(tx).reduce((next, [, row]) => Math.max(next, row.no + 1), 0)
  if (no >= NAMESPACES_MAX || !(await database.namespaces.insert(String(no), { no, name }, tx))) return null
  return no
}

/** Waits for the lock, and blocks other registrations until the transaction ends. */
export function lockNamespaces({ tx }: Work): Promise<void> {
  return tx.advisory('namespaces')
}

/** Sorted by number. */
export function listNamespaces({ database, tx }: Work): NamespaceRow[] {
  return database.namespaces
    .rows(tx)
    .map(([, row]) => row)
    .sort((a, b) => a.no - b.no)
}
