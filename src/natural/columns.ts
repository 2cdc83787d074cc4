import { invalid } from '../options.ts'
import { bytesOf, checkValue } from './values.ts'

/** Column names and their values. */
export type Columns = Readonly<Record<string, unknown>>

/** Checked columns: at least one, and no value that is missing by mistake, or that the database would get changed. */
export function checkColumns(what: string, columns: unknown): Columns {
  if (typeof columns !== 'object' || columns === null || Object.keys(columns).length === 0)
    throw invalid(`${what} needs at least one column`)
  for (const [name, value] of Object.entries(columns)) {
    if (value === undefined) throw invalid(`the column '${name}' of ${what} is undefined. Use null, or leave it out`)
    checkValue(`the column '${name}' of ${what}`, value)
  }
  return columns as Columns
}

/** Checked columns that name one row. Null is equal to nothing, so it names no row. */
export function checkRowKey(what: string, columns: unknown): Columns {
  const checked = checkColumns(what, columns)
  for (const [name, value] of Object.entries(checked))
    if (value === null) throw invalid(`the column '${name}' of ${what} is null, which names no row`)
  return checked
}

/** A quoted table, with an optional schema before a dot. */
export function quotedTable(table: unknown): string {
  if (typeof table !== 'string') throw invalid('the table must be a name, such as "orders" or "shop.orders"')
  return table.split('.').map(quoted).join('.')
}

export function quoted(name: string): string {
  if (name === '' || name.includes('\0')) throw invalid('a name of a table or a column is empty or has a NUL character')
  return `"${name.replaceAll('"', '""')}"`
}

/** The values as one JSON text, from which PostgreSQL makes each column's own type, whichever client sends them. */
export function jsonRow(columns: Columns): string {
  return JSON.stringify(Object.fromEntries(Object.entries(columns).map(([name, value]) => [name, jsonValue(value)])))
}

function jsonValue(value: unknown): unknown {
  if (typeof value === 'bigint') return String(value)
  const bytes = bytesOf(value)
  return bytes ? `\\x${bytes.toString('hex')}` : value
}
