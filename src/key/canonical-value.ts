import { isOnceError, onceError } from '../errors.ts'
import { JSON_DEPTH_MAX } from '../limits.ts'
import { entriesOf } from './entries.ts'
import { compilePointers, type Omit } from './json-pointer.ts'

/** Replaces an ignored array element: its content does not count, but the number of elements does. */
export const OMITTED = '_'

/**
 * The RFC 8785 text of a JavaScript value: members sorted by UTF-16 units, no white space, numbers as ECMAScript writes
 * them. Two values have the same text if and only if they are the same JSON. Values that JSON would silently drop or
 * flatten (functions, symbols, Map, Set, NaN, private fields, …) are refused, because the fingerprint would not change
 * with them. FormData, URLSearchParams and Headers count by their entries, in a form that no JSON has. `undefined` has
 * the empty text, because an operation may have no input.
 */
export function canonicalValue(value: unknown, ignore?: readonly string[]): string {
  const omit = compilePointers(ignore)
  try {
    return write(value, '', omit, []) ?? ''
  } catch (error) {
    if (isOnceError(error)) throw error
    // The caller's own getter, proxy or toJSON threw. This is still our refusal, with that error as its cause.
    throw onceError('ONCE_INPUT_INVALID', {
      detail: 'The input cannot be read: a getter or toJSON threw',
      cause: error,
    })
  }
}

/**
 * The text of one value. Undefined: JSON cannot express the value. As a member it is dropped, as an element it is null.
 */
function write(value: unknown, key: string, omit: Omit | undefined, parents: object[]): string | undefined {
  switch (typeof value) {
    case 'string':
      return quote(value)
    case 'number':
      if (!Number.isFinite(value)) throw beyondLimits(`it holds ${value}, which JSON cannot express`)
      return String(value)
    case 'boolean':
      return value ? 'true' : 'false'
    case 'undefined':
      return undefined
    case 'object':
      return value === null ? 'null' : writeObject(value, key, omit, parents)
    case 'bigint':
      // Programs that add BigInt support to JSON define this method, and JSON.stringify calls it too.
      return hasToJson(value) ? writeReplaced(value, key, omit, parents) : refuse(value)
    default:
      return refuse(value)
  }
}

function writeObject(value: object, key: string, omit: Omit | undefined, parents: object[]): string | undefined {
  if (hasToJson(value)) return writeReplaced(value, key, omit, parents)
  return writePlain(value, key, omit, parents)
}

/** JSON calls toJSON once. The result is used unchanged, even if it has its own toJSON. */
function writeReplaced(value: ToJson, key: string, omit: Omit | undefined, parents: object[]): string | undefined {
  const replaced = value.toJSON(key)
  if (value instanceof Date && replaced === null) throw invalid('it holds an invalid Date')
  if (typeof replaced !== 'object' || replaced === null) {
    return typeof replaced === 'bigint' ? refuse(replaced) : write(replaced, key, omit, parents)
  }
  return writePlain(replaced, key, omit, parents)
}

function writePlain(value: object, key: string, omit: Omit | undefined, parents: object[]): string | undefined {
  if (parents.length >= JSON_DEPTH_MAX || parents.includes(value)) {
    if (parents.includes(value)) throw invalid('it contains a cycle')
    throw beyondLimits(`it is nested over ${JSON_DEPTH_MAX} levels deep`)
  }
  const below = omit === 'omitted' ? undefined : omit
  parents.push(value)
  const text = Array.isArray(value) ? writeArray(value, below, parents) : writeMembers(value, key, below, parents)
  parents.pop()
  return text
}

function writeArray(value: readonly unknown[], omit: ReadonlyMap<string, Omit> | undefined, parents: object[]): string {
  let text = '['
  for (let i = 0; i < value.length; i++) {
    if (i > 0) text += ','
    const name = String(i)
    const below = omit?.get(name)
    text += below === 'omitted' ? OMITTED : (write(value[i], name, below, parents) ?? 'null')
  }
  return text + ']'
}

function writeMembers(
  value: object,
  key: string,
  omit: ReadonlyMap<string, Omit> | undefined,
  parents: object[],
): string | undefined {
  const prototype = Object.getPrototypeOf(value) as object | null
  if (prototype !== Object.prototype && prototype !== null) {
    // Compare the tag, not the class, because values may come from another realm (test runners, workers).
    const tag = Object.prototype.toString.call(value).slice('[object '.length, -1)
    if (LOSSY.has(tag) || ArrayBuffer.isView(value)) throw invalid(`it holds a ${tag}, which JSON cannot express`)
    if (isBlob(value, tag)) throw invalid(`it holds a ${tag}, ${BLOB_ADVICE}`)
    // JSON unwraps `new String('a')`; a class may call itself a String without being one.
    const inner: unknown = BOXED.has(tag) ? value.valueOf() : value
    if (typeof inner !== 'object') return write(inner, key, omit, parents)
    const entries = entriesOf(value, tag, omit)
    const empty = Object.keys(value).length === 0
    if (entries !== undefined) {
      const text = `${tag}${writeArray(entries, undefined, parents)}`
      return empty ? text : text + writeOwn(value, omit, parents)
    }
    if (empty && !isPlain(prototype)) throw invalid(`it holds ${nameOf(prototype, tag)} ${HIDDEN}`)
  }
  return writeOwn(value, omit, parents)
}

function writeOwn(value: object, omit: ReadonlyMap<string, Omit> | undefined, parents: object[]): string {
  const members = value as Readonly<Record<string, unknown>>
  const names = sortNames(Object.keys(members))
  let text = '{'
  for (const name of names) {
    const below = omit?.get(name)
    if (below === 'omitted') continue
    const member = write(members[name], name, below, parents)
    if (member === undefined) continue
    text += text.length === 1 ? `${quote(name)}:${member}` : `,${quote(name)}:${member}`
  }
  return text + '}'
}

/** Most objects have few members, often already in order. For these, insertion sort is faster than the general sort. */
const INSERTION_SORT_MAX = 16

function sortNames(names: string[]): string[] {
  if (names.length > INSERTION_SORT_MAX) return names.sort()
  for (let i = 1; i < names.length; i++) {
    const name = names[i] as string
    let at = i
    for (; at > 0 && (names[at - 1] as string) > name; at--) names[at] = names[at - 1] as string
    names[at] = name
  }
  return names
}

/** Checking a short text for escapes is faster than a call of JSON.stringify. */
const LOOK_MAX = 64

function quote(text: string): string {
  if (text.length > LOOK_MAX) return JSON.stringify(text)
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i)
    if (unit < 0x20 || unit > 0x7e || unit === 0x22 || unit === 0x5c) return JSON.stringify(text)
  }
  return `"${text}"`
}

interface ToJson {
  toJSON(key: string): unknown
}

function hasToJson(value: unknown): value is ToJson {
  return typeof (value as Partial<ToJson>).toJSON === 'function'
}

/** Built-in objects whose content JSON does not see: their text would always be `{}`. */
const LOSSY: ReadonlySet<string> = new Set(
  'Map Set WeakMap WeakSet WeakRef Promise RegExp Error ArrayBuffer SharedArrayBuffer BigInt Symbol'.split(' '),
)
const BOXED: ReadonlySet<string> = new Set(['Number', 'String', 'Boolean'])

const BLOB_ADVICE =
  'whose bytes can only be read asynchronously. Put their SHA-256 digest into the input, and ignore the file itself'
const HIDDEN = 'whose content JSON cannot see. Pass the content as plain data, or give the object a toJSON'

/** A File may have extra members, but its content is not among them. */
function isBlob(value: object, tag: string): boolean {
  return (tag === 'Blob' || tag === 'File') && typeof (value as Partial<Blob>).arrayBuffer === 'function'
}

/** A plain object of another realm, or one without a prototype. Such an object may be empty. */
function isPlain(prototype: object): boolean {
  return Object.getPrototypeOf(prototype) === null
}

function nameOf(prototype: object, tag: string): string {
  const name: unknown = tag === 'Object' ? prototype.constructor?.name : tag
  return typeof name === 'string' && name !== '' ? `a ${name}` : 'an object'
}

function refuse(value: unknown): never {
  throw invalid(`it holds a ${typeof value}, which JSON cannot express`)
}

const beyond = new WeakSet<object>()

function beyondLimits(what: string): Error {
  const error = invalid(what)
  beyond.add(error)
  return error
}

/** Whether the error is about a number or a depth that a client can send and a parser accepts. */
export function isBeyondLimits(error: unknown): boolean {
  return typeof error === 'object' && error !== null && beyond.has(error)
}

function invalid(what: string): Error {
  return onceError('ONCE_INPUT_INVALID', { detail: `The input cannot be fingerprinted: ${what}` })
}
