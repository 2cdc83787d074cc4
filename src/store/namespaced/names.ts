import { frame } from '../../key/frame.ts'

/** The unit separator. Names of consumers and destinations must not contain it. */
const SEPARATOR = '\u001f'

export function isName(text: string): boolean {
  return !text.includes('\0') && !text.includes(SEPARATOR)
}

/** The stored name of a namespace's consumer or destination. For number 0 it is the name itself. */
export function storedName(no: number, name: string): string {
  return no === 0 ? name : `${no}${SEPARATOR}${name}`
}

/** Splits a stored name into number and name. */
export function partsOf(stored: string): { readonly no: number; readonly name: string } {
  const at = stored.indexOf(SEPARATOR)
  return at < 0 ? { no: 0, name: stored } : { no: Number(stored.slice(0, at)), name: stored.slice(at + 1) }
}

/**
 * The consumer's name as a part of message ids. It contains the namespace's name, not its number, so that exported
 * letters fit another database with other numbers.
 */
export function hashedName(namespace: { readonly no: number; readonly name: string }, consumer: string): string {
  return namespace.no === 0 ? consumer : `${SEPARATOR}${frame(namespace.name)}${consumer}`
}

/** The scope of the leased operations that run a consumer's messages. Changing it runs every message again. */
export function messageScope(consumer: string): string {
  return `consumer ${consumer}`
}
