import type { EventRow } from './store.ts'

/** The headers of an ordered event have the id of the previous event, or null, which the store replaces by that id. */
export function isOrdered({ headers }: Pick<EventRow, 'headers'>): boolean {
  return headers.includes('"previous"')
}
