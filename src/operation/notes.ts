import { storable } from '../platform/storable.ts'

/** So many characters of a route and of a label are stored. */
export const NOTE_LENGTH_MAX = 200

/** What an operator is shown of an operation. A note must never be the reason why an operation fails: it is cut. */
export function notesOf(
  route: string,
  label: string | null | undefined,
): { readonly route: string; readonly label: string | null } {
  return { route: cut(route), label: label === null || label === undefined || label === '' ? null : cut(label) }
}

function cut(text: unknown): string {
  return storable(String(text).slice(0, NOTE_LENGTH_MAX))
}
