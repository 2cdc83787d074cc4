import type { KeyStore, Store } from '../store.ts'
import { RowInbox } from './inbox.ts'
import { leasedRedrives } from './redrives.ts'
import { leasedNamespaces } from './registry.ts'
import type { Rows } from './rows.ts'

/** The optional parts of a store without transactions that can compare and set rows: leased consumers need them. */
export function leasedParts(
  rows: Rows,
  store: Pick<KeyStore, 'leases' | 'read'>,
): Required<Pick<Store<undefined>, 'inbox' | 'redrives' | 'namespaces'>> {
  const inbox = new RowInbox(rows, store)
  return { inbox, redrives: leasedRedrives(rows, inbox), namespaces: leasedNamespaces(rows) }
}
