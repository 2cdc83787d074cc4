import { randomUUID } from 'node:crypto'

/** A random id that nobody can foresee: for events that have no key to derive one from. */
export function newUuid(): string {
  return randomUUID()
}
