import type { Row } from '../store.ts'

const TEXTS: readonly string[] = ['name', 'error']

/** A row with the names of the status: `oldest_ms` becomes `oldestMs`. Some clients return numbers as text. */
export function statusRowOf(row: Row): never {
  const entries = Object.entries(row).map(([name, value]) => [
    name.replaceAll(/_(.)/g, (_, letter: string) => letter.toUpperCase()),
    TEXTS.includes(name) ? value : maybe(value),
  ])
  return Object.fromEntries(entries) as never
}

export function maybe(value: unknown): number | null {
  return value === null || value === undefined ? null : Number(value)
}
