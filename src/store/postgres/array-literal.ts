/**
 * A PostgreSQL array as text. Every client sends text alike; their own array encodings differ, and some guess the
 * element type from the first value.
 */
export function arrayLiteral(values: readonly (string | number | boolean | null)[]): string {
  let out = '{'
  for (let i = 0; i < values.length; i++) {
    if (i > 0) out += ','
    const value = values[i] as string | number | boolean | null
    if (value === null) out += 'NULL'
    else if (typeof value === 'string') out += quoted(value)
    else out += String(value)
  }
  return out + '}'
}

function quoted(value: string): string {
  if (!value.includes('"') && !value.includes('\\')) return `"${value}"`
  return `"${value.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`
}
