/** JSON text of a letter, or `instead` where it is none: one bad row does not hide all the others. */
export function jsonIn<T>(text: string, instead: T): T {
  try {
    return JSON.parse(text) as T
  } catch {
    return instead
  }
}
