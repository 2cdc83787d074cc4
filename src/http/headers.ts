import { onceError } from '../errors.ts'
import { invalid } from '../options.ts'

export type HeaderPairs = readonly (readonly [name: string, value: string])[]

/**
 * Headers that a replay may carry, beside the user's own: those that change how its body is read, or who may read it.
 * Content-Encoding is here because it describes the stored bytes.
 */
const KEPT = [
  'content-type',
  'content-language',
  'content-encoding',
  'content-disposition',
  'content-location',
  'content-range',
  'content-security-policy',
  'content-security-policy-report-only',
  'x-content-type-options',
  'x-frame-options',
  'cache-control',
  'vary',
  'access-control-allow-origin',
  'access-control-allow-credentials',
  'access-control-expose-headers',
  'cross-origin-resource-policy',
  'location',
  'etag',
  'last-modified',
  'link',
  'retry-after',
] as const

/** Headers that no option can add, because they belong to one connection, one moment or one person. */
const NEVER = new Set([
  'set-cookie',
  'set-cookie2',
  'cookie',
  'date',
  'age',
  'connection',
  'keep-alive',
  'proxy-connection',
  'transfer-encoding',
  'te',
  'trailer',
  'upgrade',
  'content-length',
  'authorization',
  'www-authenticate',
  'proxy-authenticate',
  'proxy-authorization',
  'authentication-info',
  'proxy-authentication-info',
  'idempotent-replayed',
  'idempotency-key',
])

/** The id of the first request, which a replay repeats. */
const ORIGINAL = 'original-request-id'
const REQUEST_ID = /^[\x21-\x7e]{1,200}$/

const NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,200}$/
/** The characters that RFC 9110 allows in a field value. */
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/

export function keptHeaders(own: readonly string[] = []): ReadonlySet<string> {
  const kept = new Set<string>(KEPT)
  for (const name of own) {
    if (typeof name !== 'string' || !NAME.test(name)) throw invalid('keepHeaders must be a list of header names')
    const lower = name.toLowerCase()
    if (NEVER.has(lower) || lower === ORIGINAL) throw invalid(`the header ${lower} is never replayed`)
    kept.add(lower)
  }
  return kept
}

/** Headers that say who may read an answer. If code around the route sets them, they are set again for each request. */
export function isAboutReader(name: string): boolean {
  return name.startsWith('access-control-')
}

/** The headers that a replay may carry, in order, with lower-case names. Values are checked, because they are sent again. */
export function pickHeaders(pairs: Iterable<readonly [string, string]>, kept: ReadonlySet<string>): HeaderPairs {
  const picked: (readonly [string, string])[] = []
  for (const [name, value] of pairs) {
    const lower = name.toLowerCase()
    if (!kept.has(lower)) continue
    picked.push([lower, checkValue(lower, value)])
  }
  return picked
}

/** The headers that the record keeps, with the id of the request, from the answer or from the request. */
export function storedHeaders(
  pairs: Iterable<readonly [string, string]>,
  kept: ReadonlySet<string>,
  sent: (name: string) => string | undefined,
): HeaderPairs {
  let id: string | undefined
  for (const [name, value] of pairs) if (name === 'request-id' || name === 'x-request-id') id = value
  id ??= sent('request-id') ?? sent('x-request-id')
  const picked = pickHeaders(pairs, kept)
  return id !== undefined && REQUEST_ID.test(id) ? [...picked, [ORIGINAL, id]] : picked
}

/** The same check before a replay, because another program may have written the stored headers. */
export function checkStored(pairs: HeaderPairs): HeaderPairs {
  for (const [name, value] of pairs) {
    if (typeof name !== 'string' || !NAME.test(name) || NEVER.has(name.toLowerCase())) throw damaged('name')
    if (typeof value !== 'string' || !VALUE.test(value)) throw damaged('value')
  }
  return pairs
}

/** The headers of a Node message. A value is a number, a text or a list of texts. */
export function flatHeaders(
  headers: Readonly<Record<string, string | number | readonly string[] | undefined>>,
): HeaderPairs {
  const pairs: (readonly [string, string])[] = []
  for (const name of Object.keys(headers)) {
    const value = headers[name]
    if (value === undefined) continue
    if (typeof value === 'object') for (const each of value) pairs.push([name, each])
    else pairs.push([name, String(value)])
  }
  return pairs
}

/** Headers of a hook. They are checked like all others, and must not describe the body's length or coding. */
export function spokenHeaders(pairs: HeaderPairs): HeaderPairs {
  for (const [name, value] of pairs) {
    if (!NAME.test(name)) throw onceError('ONCE_ANSWER_INVALID', { detail: 'A header has an invalid name' })
    checkValue(name, value)
  }
  return pairs.filter(([name]) => !/^(content-length|transfer-encoding)$/i.test(name))
}

/** Headers of a response, with copies of their lists, because code that adds a cookie may change a list in place. */
export function withOwnLists<H extends Record<string, unknown>>(headers: H): H {
  for (const name of Object.keys(headers)) {
    const value = headers[name]
    if (Array.isArray(value)) Object.assign(headers, { [name]: [...(value as unknown[])] })
  }
  return headers
}

/** Whether a header or a status text may contain this text. */
export function isValue(text: unknown): boolean {
  return VALUE.test(String(text))
}

/** Throws the same error as Node. */
export function checkStatus(status: number): void {
  if (status >= 100 && status < 1_000) return
  throw Object.assign(new RangeError(`Invalid status code: ${status}`), { code: 'ERR_HTTP_INVALID_STATUS_CODE' })
}

function checkValue(name: string, value: string): string {
  if (VALUE.test(value)) return value
  throw onceError('ONCE_ANSWER_INVALID', { detail: `The header ${name} has an invalid character` })
}

function damaged(part: 'name' | 'value'): Error {
  return onceError('ONCE_ANSWER_INVALID', { detail: `A stored header has an invalid ${part}` })
}
