import type { MemoryDatabase } from '../../store/memory/database/database.ts'
import { partsOf } from '../../store/namespaced/names.ts'

/** The number of one of the services that share a database. */
export type Service = 0 | 1

export const SERVICES: readonly Service[] = [0, 1]

/** The namespaces by service and instance. All other names are the same in both services. */
export const NAMESPACES = [
  ['sim', 'sim-beside'],
  ['shop', 'shop-beside'],
] as const

/** The service of a stored consumer name, and the consumer's name within that service. */
export function consumerIn(
  { namespaces }: MemoryDatabase,
  stored: string,
): { readonly service: Service; readonly name: string } {
  const { no, name } = partsOf(stored)
  return { service: namespaces.seen(String(no), null)?.name === NAMESPACES[1][0] ? 1 : 0, name }
}
