import { invalid } from '../options.ts'
import { isStorable } from '../platform/storable.ts'

/** The bytes of a value. Null: it has none. */
export function bytesOf(value: unknown): Buffer | null {
  if (ArrayBuffer.isView(value)) return Buffer.from(value.buffer, value.byteOffset, value.byteLength)
  return value instanceof ArrayBuffer ? Buffer.from(value) : null
}

/**
 * Refuses a value that would reach the database as another one. JSON writes NaN as null and a Map as `{}`. SQLite
 * writes NaN as null, too.
 */
export function checkValue(where: string, value: unknown): void {
  if (typeof value === 'bigint' || bytesOf(value)) return
  let found: string | null = null
  try {
    JSON.stringify(value, function (this: Record<string, unknown>, name, written: unknown) {
      // JSON calls `toJSON` first, so `written` is no longer a Date, for example.
      found ??= oddity(this[name], written, name === '' || Array.isArray(this))
      return found === null ? written : null
    })
  } catch (error) {
    throw invalid(`${where} is not a value of JSON`, error)
  }
  if (found !== null) throw invalid(`${where} is, or contains, ${found as string}`)
}

/** What is wrong with a value. Null: nothing. A member of an object may be undefined: JSON leaves it out. */
function oddity(value: unknown, written: unknown, isNeeded: boolean): string | null {
  if (value instanceof Date && Number.isNaN(value.getTime())) return 'an invalid date'
  if (bytesOf(value)) return 'bytes inside another value'
  switch (typeof written) {
    case 'undefined':
      return isNeeded ? 'undefined' : null
    case 'number':
      return Number.isFinite(written) ? null : 'a number that is not finite'
    case 'bigint':
      return 'a bigint inside another value'
    case 'function':
    case 'symbol':
      return `a ${typeof written}`
    case 'string':
      return isStorable(written) ? null : 'a text that a database cannot store'
    case 'object':
      return hidesContent(written) ? `a ${written.constructor.name}, which hides its content` : null
    default:
      return null
  }
}

/** Such as a Map or a Promise: JSON would write `{}` for each of them. */
function hidesContent(value: object | null): value is object {
  if (value === null || Array.isArray(value) || Object.keys(value).length > 0) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype !== Object.prototype && prototype !== null
}
