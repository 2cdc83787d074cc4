import type { Row } from '../store.ts'

/**
 * The values that both libraries bind in the same way. Others are converted first: one library ends the process on a
 * boolean.
 */
export type Bindable = null | number | bigint | string | Uint8Array

const INTEGER_MIN = -(2n ** 63n)
const INTEGER_MAX = 2n ** 63n - 1n

/**
 * A user's value as SQLite stores it: booleans as 0 and 1, dates as ISO text, objects as JSON text. Whole numbers are
 * bound as integers. Both libraries would bind them as reals, and a text column would store '5.0'.
 */
export function bindable(value: unknown): Bindable {
  switch (typeof value) {
    case 'string':
      return value
    case 'number':
      return Number.isSafeInteger(value) ? BigInt(value) : value
    case 'boolean':
      return value ? 1n : 0n
    case 'bigint':
      if (value < INTEGER_MIN || value > INTEGER_MAX) throw new RangeError(`${value} does not fit into 64 bits`)
      return value
    case 'undefined':
      return null
    case 'object':
      return bindableObject(value)
    default:
      throw new TypeError(`a ${typeof value} cannot be a value of a query`)
  }
}

function bindableObject(value: object | null): Bindable {
  if (value === null) return null
  if (value instanceof Uint8Array) return value
  if (value instanceof Date) return value.toISOString()
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
  if (value instanceof ArrayBuffer) return new Uint8Array(value)
  return JSON.stringify(value)
}

/** Makes the rows of both libraries equal: plain objects, exact integers, bytes as Uint8Array. */
export function readable(rows: readonly object[]): Row[] {
  return rows.map((row) => {
    const plain: Row = {}
    for (const [name, value] of Object.entries(row)) plain[name] = readableValue(value)
    return plain
  })
}

/** Integers are read as BigInt, so that none is rounded. An integer that fits into a number becomes a number. */
function readableValue(value: unknown): unknown {
  if (typeof value === 'bigint') {
    const number = Number(value)
    return Number.isSafeInteger(number) ? number : value
  }
  return value instanceof ArrayBuffer ? new Uint8Array(value) : value
}
