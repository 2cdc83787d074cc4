import { onceError } from '../errors.ts'
import { checkKey } from './parse-key.ts'

const TAB = 0x09
const SPACE = 0x20
const QUOTE = 0x22
const COMMA = 0x2c
const SEMICOLON = 0x3b
const EQUALS = 0x3d
const BACKSLASH = 0x5c

/**
 * Reads the key from an `Idempotency-Key` header: a structured-field string (RFC 8941, as the IETF draft requires), or
 * the bare value, as in most APIs. `"abc"`, `"abc";v=1` and `abc` are the same key. A bare value is used as a whole,
 * semicolons included, because cutting it would turn two keys into one. It must not contain a comma, because proxies
 * join repeated headers with commas. It must not contain a space or a quote, because these come from broken strings.
 * The parser makes one pass without regular expressions, because the value may be hostile.
 */
export function parseKeyHeader(value: string): string {
  if (typeof value !== 'string') throw malformed('The idempotency key header is not text')
  const start = skipSpace(value, 0)
  let end = value.length
  while (end > start && isSpace(value.charCodeAt(end - 1))) end--
  if (start === end) throw malformed('The idempotency key is empty')
  const text = value.slice(start, end)
  return checkKey(text.charCodeAt(0) === QUOTE ? readString(text) : readBare(text))
}

function readBare(text: string): string {
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i)
    if (unit === COMMA) throw twice()
    if (unit === QUOTE || isSpace(unit))
      throw malformed(`The idempotency key has a space or a quote at position ${i}: put the whole key in quotes`)
  }
  return text
}

function readString(text: string): string {
  const end = endOfString(text, 0)
  const inner = text.slice(1, end - 1)
  readParameters(text, end)
  // `endOfString` accepts only \" and \\ as escapes, so the backslashes can be dropped.
  return inner.includes('\\') ? inner.replace(/\\(.)/g, '$1') : inner
}

/** The position after the closing quote of the string that opens at `at`. */
function endOfString(text: string, at: number): number {
  for (let i = at + 1; i < text.length; i++) {
    const unit = text.charCodeAt(i)
    if (unit === QUOTE) return i + 1
    if (unit < 0x20 || unit > 0x7e) throw malformed(`The idempotency key is not printable ASCII at position ${i}`)
    if (unit !== BACKSLASH) continue
    i += 1
    const escaped = text.charCodeAt(i)
    if (escaped !== QUOTE && escaped !== BACKSLASH) throw malformed('Only \\" and \\\\ are escapes in a quoted key')
  }
  throw malformed('The quoted idempotency key does not end')
}

/**
 * Reads any number of `;name` or `;name=value`. They are checked, so that a broken header is noticed, and then ignored.
 */
function readParameters(text: string, from: number): void {
  let at = from
  while (at < text.length) {
    const unit = text.charCodeAt(at)
    if (unit === COMMA || (isSpace(unit) && text.charCodeAt(skipSpace(text, at)) === COMMA)) throw twice()
    if (unit !== SEMICOLON) throw malformed('Something follows the quoted idempotency key')
    at = skipSpace(text, at + 1)
    const name = at
    at = skipToken(text, at)
    if (at === name) throw malformed('A parameter of the idempotency key has no name')
    if (text.charCodeAt(at) !== EQUALS) continue
    at += 1
    const item = at
    at = text.charCodeAt(at) === QUOTE ? endOfString(text, at) : skipItem(text, at)
    if (at === item) throw malformed('A parameter of the idempotency key has no value')
  }
}

/** Parameter names: lower-case letters, digits, `_`, `-`, `.` and `*`. */
function skipToken(text: string, from: number): number {
  let at = from
  while (at < text.length && 'abcdefghijklmnopqrstuvwxyz0123456789_-.*'.includes(text.charAt(at))) at++
  return at
}

/** Skips a number, token, byte sequence or boolean: visible characters up to the end of the item. */
function skipItem(text: string, from: number): number {
  let at = from
  for (; at < text.length; at++) {
    const unit = text.charCodeAt(at)
    if (unit <= SPACE || unit > 0x7e || unit === QUOTE || unit === COMMA || unit === SEMICOLON) break
  }
  return at
}

function skipSpace(text: string, from: number): number {
  let at = from
  while (at < text.length && isSpace(text.charCodeAt(at))) at++
  return at
}

function isSpace(unit: number): boolean {
  return unit === SPACE || unit === TAB
}

function malformed(detail: string): Error {
  return onceError('ONCE_KEY_INVALID', { detail })
}

function twice(): Error {
  return onceError('ONCE_KEY_TWICE', {
    detail: 'The idempotency key header has more than one key, or a comma outside quotes',
  })
}
