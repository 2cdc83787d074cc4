import { onceError } from '../errors.ts'
import { invalid } from '../once/settings.ts'

export type HeaderPairs = readonly (readonly [name: string, value: string])[]

/** What a replay may carry, beside the user's own. Content-Encoding is here because it describes the stored bytes. */
const KEPT = [
  'content-type',
  'content-language',
  'content-encoding',
  'location',
  'etag',
  'last-modified',
  'link',
  'retry-after',
] as const

/** What no option can add: these belong to one connection, one moment or one person. */
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
])

const NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,200}$/
/** Exactly what RFC 9110 allows in a field value. */
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/

export function keptHeaders(own: readonly string[] = []): ReadonlySet<string> {
  const kept = new Set<string>(KEPT)
  for (const name of own) {
    if (typeof name !== 'string' || !NAME.test(name)) throw invalid('keepHeaders holds names of headers')
    const lower = name.toLowerCase()
    if (NEVER.has(lower)) throw invalid(`the header ${lower} is never replayed`)
    kept.add(lower)
  }
  return kept
}

/** The pairs a replay may carry, in their order, names in lower case. Every value is checked: stored text is sent again. */
export function pickHeaders(pairs: Iterable<readonly [string, string]>, kept: ReadonlySet<string>): HeaderPairs {
  const picked: (readonly [string, string])[] = []
  for (const [name, value] of pairs) {
    const lower = name.toLowerCase()
    if (!kept.has(lower)) continue
    picked.push([lower, checkValue(lower, value)])
  }
  return picked
}

/** The same check on the way out: what is in the database may have been written by somebody else. */
export function checkStored(pairs: HeaderPairs): HeaderPairs {
  for (const [name, value] of pairs) {
    if (typeof name !== 'string' || !NAME.test(name) || NEVER.has(name.toLowerCase())) throw damaged('name')
    if (typeof value !== 'string' || !VALUE.test(value)) throw damaged('value')
  }
  return pairs
}

/** The headers of a Node message, each a number, a text or several. */
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

function checkValue(name: string, value: string): string {
  if (VALUE.test(value)) return value
  throw onceError('ONCE_ANSWER_INVALID', { detail: `The header ${name} has a character that no header may have` })
}

function damaged(part: 'name' | 'value'): Error {
  return onceError('ONCE_ANSWER_INVALID', { detail: `A stored header has a ${part} that no header may have` })
}
