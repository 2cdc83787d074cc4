type Element = string | number | boolean | null

/**
 * A PostgreSQL array as text. All clients send text in the same way, but their array encodings differ, and some guess
 * the element type from the first value.
 */
export function arrayLiteral(values: readonly Element[]): string {
  let out = '{'
  for (let i = 0; i < values.length; i++) {
    if (i > 0) out += ','
    const value = values[i] as Element
    if (value === null) out += 'NULL'
    else if (typeof value === 'string') out += quoted(value)
    else out += String(value)
  }
  return out + '}'
}

/** Each of these columns as an array. */
export function arraysOf<C extends string>(
  rows: readonly Readonly<Record<C, Element>>[],
  ...columns: readonly C[]
): string[] {
  return columns.map((column) => arrayLiteral(rows.map((row) => row[column])))
}

function quoted(value: string): string {
  if (!value.includes('"') && !value.includes('\\')) return `"${value}"`
  return `"${value.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`
}
