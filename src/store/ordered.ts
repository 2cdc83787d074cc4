import type { EventRow } from './store.ts'

/** Ordered entries carry the id of the event before them, or the place where the store will write it. */
export function isOrdered({ headers }: Pick<EventRow, 'headers'>): boolean {
  return headers.includes('"previous"')
}
