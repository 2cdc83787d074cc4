import { refuseUnknown } from '../options.ts'
import { deadLettersOf, type DeadLetters } from '../dead-letter/dead-letters.ts'
import { redriveOf } from '../dead-letter/redrive/redrive.ts'
import type { Redrive } from '../dead-letter/redrive/types.ts'
import { checkNamespace } from '../key/parse-key.ts'
import { OwnNamespace } from '../store/namespaced/own-namespace.ts'
import { required, transactionsOf } from '../store/lacking.ts'
import type { Schema, Store, Transactions } from '../store/store.ts'
import type { Core } from '../operation/core.ts'
import type { Parts } from '../operation/parts.ts'
import type { Settings } from '../operation/settings.ts'
import type { MigrateOptions } from './types.ts'

export function namespaceOf<Tx>(
  store: Store<Tx>,
  { namespace: name, events }: Settings,
  { namespaceNo: no }: Parts,
): OwnNamespace<Tx> {
  return new OwnNamespace(store, { name, publishes: Object.keys(events).length > 0, no })
}

/** Events are published in transactions, so a store without transactions refuses a catalogue. */
export function checkedTransactions<Tx>(store: Store<Tx>, { events }: Settings): Transactions<Tx> | null {
  const transactions = transactionsOf(store)
  return Object.keys(events).length > 0 ? required(store, transactions, 'publish') : transactions
}

/** Dead letters of the instance's own consumers. */
export function lettersOf<Tx>({ store, namespace }: Core<Tx>): DeadLetters {
  const { inbox, redrives } = namespace
  return deadLettersOf(required(store, inbox, 'deadLetters').letters, redrives, namespace)
}

export function redrivesOf<Tx>({ store, namespace, clock }: Core<Tx>): Redrive {
  const { inbox, redrives } = namespace
  return redriveOf(required(store, redrives, 'redrive'), required(store, inbox, 'redrive').letters, clock)
}

const MIGRATE_OPTIONS = new Set(['adopt'])

export async function migrateNow<Tx>({ store }: Core<Tx>, options: MigrateOptions): ReturnType<Schema['migrate']> {
  refuseUnknown(options, MIGRATE_OPTIONS, 'migrate()')
  const { adopt } = options
  return required(store, store.schema, 'migrate').migrate(adopt === undefined ? {} : { adopt: checkNamespace(adopt) })
}
