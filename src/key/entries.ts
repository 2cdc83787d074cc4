import type { Omit } from './json-pointer.ts'

/** One entry of a form, a query or headers. The value of a file in a form is not a string. */
export type Entry = readonly [name: string, value: unknown]

interface WithEntries {
  entries(): Iterable<Entry>
}

/** The types that hold their content in entries, and how each spells a name. */
const KINDS: ReadonlyMap<string, (name: string) => string> = new Map([
  ['FormData', asWritten],
  ['URLSearchParams', asWritten],
  ['Headers', (name: string) => name.toLowerCase()],
])

/**
 * The entries of a FormData, URLSearchParams or Headers, of any realm and implementation. Undefined for any other
 * value. Entries are sorted by name. The order within a name is kept, because it is the order of a list. Names in
 * `omit` are left out.
 */
export function entriesOf(
  value: object,
  tag: string,
  omit: ReadonlyMap<string, Omit> | undefined,
): readonly Entry[] | undefined {
  const spell = KINDS.get(tag)
  if (spell === undefined || typeof (value as Partial<WithEntries>).entries !== 'function') return undefined
  const without = new Set<string>()
  for (const [name, below] of omit ?? []) if (below === 'omitted') without.add(spell(name))
  const entries: Entry[] = []
  for (const [name, content] of (value as WithEntries).entries()) {
    const spelled = spell(name)
    if (!without.has(spelled)) entries.push([spelled, content])
  }
  return entries.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))
}

function asWritten(name: string): string {
  return name
}
