import type { PgClient } from './client.ts'
import type { WireValue } from './wire.ts'

type ValueMapper = (value: unknown) => WireValue

/** Our own parameters: strings, bytes, numbers, booleans and null. */
export function ownValue(value: unknown): WireValue {
  if (typeof value === 'string' || value instanceof Uint8Array) return value
  return value === null || value === undefined ? null : String(value)
}

const mappers = new WeakMap<object, ValueMapper>()

/**
 * Maps the user's parameters exactly as pg does: dates, arrays, objects, `toPostgres`. The function is pg's own: its
 * exposed `Client.Query` passes it to the connection when it prepares itself.
 */
export function valueMapperOf(client: PgClient): ValueMapper {
  const made = client.constructor as { readonly Query?: new (config: object) => { prepare(connection: object): void } }
  let mapper = mappers.get(made)
  if (mapper) return mapper
  mapper = plainValue
  const nothing = (): void => {}
  const recorder = {
    parsedStatements: {},
    submittedNamedStatements: {},
    parse: nothing,
    describe: nothing,
    execute: nothing,
    sync: nothing,
    flush: nothing,
    close: nothing,
    bind(config: { readonly valueMapper?: ValueMapper }): void {
      if (typeof config.valueMapper === 'function') mapper = config.valueMapper
    },
  }
  try {
    if (made.Query) new made.Query({ text: 'select $1', values: [null] }).prepare(recorder)
  } catch {
    // An unknown version of pg: the plain mapping stays.
  }
  mappers.set(made, mapper)
  return mapper
}

function plainValue(value: unknown): WireValue {
  if (typeof value !== 'object' || value === null) return ownValue(value)
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
  if (value instanceof Date) return value.toISOString()
  return JSON.stringify(value)
}
