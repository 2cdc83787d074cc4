/** How the rows of one statement are read: a name and a parser per column. */
export interface Columns {
  readonly names: readonly string[]
  readonly parsers: readonly ((text: string) => unknown)[]
  /** The fields as the server described them. */
  readonly fields: readonly ColumnField[]
}

export interface ColumnField {
  readonly name: string
  readonly dataTypeID: number
}

export const NO_COLUMNS: Columns = { names: [], parsers: [], fields: [] }

const BOOL = 16
const NUMBERS: ReadonlySet<number> = new Set([21, 23, 26, 700, 701])

/**
 * The parsers of our own results: int8 stays text, and no `setTypeParser` of the user changes what we read. pg gets
 * them as `types`, if pg reads the rows itself.
 */
export function ownParser(oid: number): (text: string) => unknown {
  if (oid === BOOL) return isTrue
  return NUMBERS.has(oid) ? Number : asText
}

export function columnsOf(
  fields: readonly ColumnField[],
  parserOf: (oid: number) => (text: string) => unknown,
): Columns {
  return {
    names: fields.map((field) => field.name),
    parsers: fields.map((field) => parserOf(field.dataTypeID)),
    fields,
  }
}

export function rowOf(columns: Columns, texts: readonly (string | null)[]): Record<string, unknown> {
  const { names, parsers } = columns
  const row: Record<string, unknown> = {}
  for (let i = 0; i < names.length; i++) {
    const text = texts[i] as string | null
    row[names[i] as string] = text === null ? null : (parsers[i] as (text: string) => unknown)(text)
  }
  return row
}

function isTrue(text: string): boolean {
  return text === 't'
}

function asText(text: string): string {
  return text
}
