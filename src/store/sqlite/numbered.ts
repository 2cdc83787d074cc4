import { readText } from './text.ts'
import type { Bindable } from './value.ts'

/** One of our own statements whose values are used more than once: `$1`, `$2`, … as in PostgreSQL. */
export interface Numbered {
  readonly sql: string
  values(values: readonly Bindable[]): Bindable[]
}

export function numbered(text: string): Numbered {
  const { sql, order } = readText(text)
  return { sql, values: (values) => order.map((index) => values[index] as Bindable) }
}
