import { storable } from '../platform/storable.ts'

/** The most characters of a route or a label that are stored. */
export const NOTE_LENGTH_MAX = 200

/** A text that operators see. It is cut, because a long text must not make the operation fail. */
export function notesOf(
  route: string,
  label: string | null | undefined,
): { readonly route: string; readonly label: string | null } {
  return { route: cut(route), label: label === null || label === undefined || label === '' ? null : cut(label) }
}

function cut(text: unknown): string {
  return storable(String(text).slice(0, NOTE_LENGTH_MAX))
}
