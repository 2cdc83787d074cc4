import { randomUUID } from 'node:crypto'

/** As the database writes it. */
export const UUID: RegExp = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/

/** A random id that nobody can foresee: for events that have no key to derive one from. */
export function newUuid(): string {
  return randomUUID()
}
