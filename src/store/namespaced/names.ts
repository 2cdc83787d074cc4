import { frame } from '../../key/frame.ts'

/** Unit separator: no name of a consumer or destination may hold it. */
const SEPARATOR = '\u001f'

export function isName(text: string): boolean {
  return !text.includes('\0') && !text.includes(SEPARATOR)
}

/** The name a namespace's consumer or destination is stored under: of number 0 the name itself. */
export function storedName(no: number, name: string): string {
  return no === 0 ? name : `${no}${SEPARATOR}${name}`
}

/** What `storedName` made, taken apart. */
export function partsOf(stored: string): { readonly no: number; readonly name: string } {
  const at = stored.indexOf(SEPARATOR)
  return at < 0 ? { no: 0, name: stored } : { no: Number(stored.slice(0, at)), name: stored.slice(at + 1) }
}

/**
 * The name of a consumer as it goes into the ids of its messages. By the name of the namespace, not by its number: letters
 * that were exported fit another database, where the number may be another one.
 */
export function hashedName(namespace: { readonly no: number; readonly name: string }, consumer: string): string {
  return namespace.no === 0 ? consumer : `${SEPARATOR}${frame(namespace.name)}${consumer}`
}
