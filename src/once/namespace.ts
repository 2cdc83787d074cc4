import { deadLettersOf, type DeadLetters } from '../dead-letter/dead-letters.ts'
import { redriveOf } from '../dead-letter/redrive/redrive.ts'
import type { Redrive } from '../dead-letter/redrive/types.ts'
import { onceError } from '../errors.ts'
import { checkNamespace } from '../key/parse-key.ts'
import { OwnNamespace } from '../store/namespaced/own-namespace.ts'
import type { Store } from '../store/store.ts'
import type { Core } from '../operation/core.ts'
import type { Parts } from '../operation/parts.ts'
import { refuseUnknown, type Settings } from '../operation/settings.ts'
import type { MigrateOptions } from './types.ts'

export function namespaceOf<Tx>(
  store: Store<Tx>,
  { namespace: name, events }: Settings,
  { namespaceNo: no }: Parts,
): OwnNamespace<Tx> {
  return new OwnNamespace(store, { name, publishes: Object.keys(events).length > 0, no })
}

/** Dead letters of the instance's own consumers. */
export function lettersOf<Tx>({ store, namespace }: Core<Tx>): DeadLetters {
  const { inbox, redrives } = namespace
  if (!inbox) throw onceError('ONCE_UNSUPPORTED', { detail: `the ${store.name} store has no dead letters` })
  return deadLettersOf(inbox.letters, redrives, namespace)
}

export function redrivesOf<Tx>({ store, namespace, clock }: Core<Tx>): Redrive {
  const { inbox, redrives } = namespace
  if (!inbox || !redrives) throw onceError('ONCE_UNSUPPORTED', { detail: `the ${store.name} store has no redrives` })
  return redriveOf(redrives, inbox.letters, clock)
}

const MIGRATE_OPTIONS = new Set(['adopt'])

export async function migrateNow<Tx>(
  { store }: Core<Tx>,
  options: MigrateOptions,
): ReturnType<Store<Tx>['schema']['migrate']> {
  refuseUnknown(options, MIGRATE_OPTIONS, 'migrate()')
  const { adopt } = options
  return store.schema.migrate(adopt === undefined ? {} : { adopt: checkNamespace(adopt) })
}
