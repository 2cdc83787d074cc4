/**
 * Parses the JSON text of a letter. Returns `instead` if it is invalid, so that one bad row does not hide the others.
 */
export function jsonIn<T>(text: string, instead: T): T {
  try {
    return JSON.parse(text) as T
  } catch {
    return instead
  }
}
