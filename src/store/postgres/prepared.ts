import type { ParameterStyle, PgStatement } from './driver/driver.ts'
import { preparedName } from './name.ts'

/** The statements of a store, by name, with the names under which connections prepare them. */
export function prepared<Name extends string>(
  schema: string,
  texts: Readonly<Record<Name, string>>,
  parameters: ParameterStyle = 'encoded',
): (name: Name, values: readonly unknown[]) => PgStatement {
  const isPlain = parameters === 'plain'
  const known = Object.fromEntries(
    Object.entries<string>(texts).map(([name, given]) => {
      const text = isPlain ? withoutCasts(given) : given
      return [name, { name: preparedName(schema, name, text), text }]
    }),
  ) as Record<Name, { readonly name: string; readonly text: string }>
  return (name, values) => ({ ...known[name], values: isPlain ? values : values.map(encoded) })
}

function withoutCasts(text: string): string {
  return text.replaceAll(/decode\((\$\d+)::text, 'base64'\)/g, '$1::bytea').replaceAll(/(\$\d+)::text::/g, '$1::')
}

function encoded(value: unknown): unknown {
  return value instanceof Uint8Array ? base64(value) : value
}

export function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')
}
