import { NAMESPACES_MAX } from '../../../limits.ts'
import type { NamespaceRow } from '../../namespaces.ts'
import type { Work } from '../database/connection.ts'

/**
 * The number of a namespace, which is registered when it is new; null: somebody else registers one at this moment, or none
 * is left. Never waits: whoever registers in a transaction holds the lock until that ends.
 */
export async function registerNamespace({ database, tx }: Work, name: string): Promise<number | null> {
  const known = database.namespaces.rows(tx).find(([, row]) => row.name === name)
  if (known !== undefined) return known[1].no
  if (!tx.tryAdvisory('namespaces')) return null
  const no = database.namespaces.rows(tx).reduce((next, [, row]) => Math.max(next, row.no + 1), 0)
  if (no >= NAMESPACES_MAX || !(await database.namespaces.insert(String(no), { no, name }, tx))) return null
  return no
}

/** Nobody else registers one until the transaction ends. */
export function lockNamespaces({ tx }: Work): Promise<void> {
  return tx.advisory('namespaces')
}

/** By their numbers. */
export function listNamespaces({ database, tx }: Work): NamespaceRow[] {
  return database.namespaces
    .rows(tx)
    .map(([, row]) => row)
    .sort((a, b) => a.no - b.no)
}
