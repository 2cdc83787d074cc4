import type { Omit } from './json-pointer.ts'

/** One entry of a form, of a query or of headers. A file of a form has a value that is no text. */
export type Entry = readonly [name: string, value: unknown]

interface WithEntries {
  entries(): Iterable<Entry>
}

/** What keeps its content in entries, and how it spells the name of one. */
const KINDS: ReadonlyMap<string, (name: string) => string> = new Map([
  ['FormData', asWritten],
  ['URLSearchParams', asWritten],
  ['Headers', (name: string) => name.toLowerCase()],
])

/**
 * The entries of a FormData, URLSearchParams or Headers, of any realm and any make, or undefined for everything else.
 * They are sorted by name, the order within a name kept: it is the order of a list. Names that `omit` leaves out are left out.
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
