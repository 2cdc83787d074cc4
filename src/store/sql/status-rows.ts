import type { Row } from '../store.ts'

const TEXTS: readonly string[] = ['name', 'error']

/** A row under the names that the status has: `oldest_ms` is `oldestMs`. Some clients give numbers as texts. */
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
