import type { MemoryDatabase } from '../../store/memory/database/database.ts'
import { partsOf } from '../../store/namespaced/names.ts'

/** Which of the services that share a database. */
export type Service = 0 | 1

export const SERVICES: readonly Service[] = [0, 1]

/** By service and instance of its processes. Everything else has the same name in both. */
export const NAMESPACES = [
  ['sim', 'sim-beside'],
  ['shop', 'shop-beside'],
] as const

/** Whose consumer a stored name is, and what that service calls it. */
export function consumerIn(
  { namespaces }: MemoryDatabase,
  stored: string,
): { readonly service: Service; readonly name: string } {
  const { no, name } = partsOf(stored)
  return { service: namespaces.seen(String(no), null)?.name === NAMESPACES[1][0] ? 1 : 0, name }
}
