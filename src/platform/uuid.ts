import { randomUUID } from 'node:crypto'

/** A UUID as databases write it. */
export const UUID: RegExp = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/

/** An unpredictable id, for events that have no key to derive an id from. */
export function newUuid(): string {
  return randomUUID()
}
