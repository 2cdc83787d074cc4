import { uuid8Of } from '../key/uuid.ts'
import { invalid } from '../options.ts'
import { sha256Hex } from '../platform/sha256.ts'
import { isWellFormed } from '../platform/storable.ts'

/** A part of a name. Whole numbers count as their decimal text. */
export type IdPart = string | number | bigint

/**
 * A name-based UUID: equal parts give the same id in every process, language and version. It is version 8 of RFC 9562
 * over the SHA-256 of the parts as netstrings (`5:hello,`), the namespace first. Use it as the primary key of a row
 * that a retry may insert again.
 *
 * @example
 * deterministicId('invoices', 'customer-7', '2026-11') // '5ca80b98-f9cd-8d83-9193-4e925153bc3c'
 */
export function deterministicId(namespace: string, ...parts: readonly IdPart[]): string {
  if (typeof namespace !== 'string' || namespace === '') throw invalid('deterministicId() needs a namespace')
  if (parts.length === 0) throw invalid('deterministicId() needs at least one part')
  return uuid8Of(sha256Hex([namespace, ...parts].map(netstring).join('')))
}

/** The length counts bytes of UTF-8, as every language can. Lengths keep ('a', 'bc') and ('ab', 'c') apart. */
function netstring(part: unknown, index: number): string {
  const text = Number.isSafeInteger(part) || typeof part === 'bigint' ? String(part) : part
  // An id of `undefined` would be one id for all rows whose part is missing.
  if (typeof text !== 'string' || !isWellFormed(text))
    throw invalid(`part ${index} of deterministicId() is neither a text nor a whole number`)
  return `${Buffer.byteLength(text)}:${text},`
}
