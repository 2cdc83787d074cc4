import { onceError } from '../errors.ts'
import { JSON_DEPTH_MAX } from '../limits.ts'
import { OMITTED } from './canonical-value.ts'
import { canonicalDecimal } from './decimal.ts'
import { compilePointers, type Omit } from './json-pointer.ts'

const decoder = new TextDecoder('utf-8', { fatal: true })

/** The scanner's text and position. */
interface Scan {
  readonly text: string
  at: number
}

interface Member {
  readonly name: string
  readonly quoted: string
  readonly value: string | undefined
}

/**
 * The RFC 8785 text of a JSON document, read from its bytes. JSON.parse would hide two things: which of two equal
 * members won, and digits that a double cannot hold. Duplicate members are refused, because readers disagree about
 * them. Numbers keep their decimal value, and `__proto__` is a name like any other. The time is linear except for
 * sorting members. Recursion is limited, and no member becomes a property or a Map key, so crafted names cannot
 * collide.
 */
export function canonicalText(bytes: Uint8Array, ignore?: readonly string[]): string {
  const omit = compilePointers(ignore)
  const scan: Scan = { text: decode(bytes), at: 0 }
  skipSpace(scan)
  const value = readValue(scan, 0, omit)
  skipSpace(scan)
  if (scan.at < scan.text.length) throw unexpected(scan)
  return value
}

function decode(bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes)
  } catch (cause) {
    throw invalid('The JSON body is not UTF-8', cause)
  }
}

function readValue(scan: Scan, depth: number, omit: Omit | undefined): string {
  const below = omit === 'omitted' ? undefined : omit
  switch (scan.text.charCodeAt(scan.at)) {
    case 0x7b:
      return readObject(scan, depth, below)
    case 0x5b:
      return readArray(scan, depth, below)
    case 0x22:
      return requote(readString(scan))
    case 0x74:
      return readWord(scan, 'true')
    case 0x66:
      return readWord(scan, 'false')
    case 0x6e:
      return readWord(scan, 'null')
    default:
      return readNumber(scan)
  }
}

function readArray(scan: Scan, depth: number, omit: ReadonlyMap<string, Omit> | undefined): string {
  enter(scan, depth)
  if (take(scan, 0x5d)) return '[]'
  let text = '['
  for (let i = 0; ; i++) {
    const below = omit?.get(String(i))
    const value = readValue(scan, depth + 1, below)
    text += below === 'omitted' ? OMITTED : value
    skipSpace(scan)
    if (take(scan, 0x5d)) return text + ']'
    if (!take(scan, 0x2c)) throw unexpected(scan)
    text += ','
    skipSpace(scan)
  }
}

function readObject(scan: Scan, depth: number, omit: ReadonlyMap<string, Omit> | undefined): string {
  enter(scan, depth)
  if (take(scan, 0x7d)) return '{}'
  const members: Member[] = []
  let sorted = true
  for (;;) {
    const member = readMember(scan, depth, omit)
    const before = members.at(-1)
    if (before !== undefined && before.name >= member.name) sorted = false
    members.push(member)
    skipSpace(scan)
    if (take(scan, 0x7d)) break
    if (!take(scan, 0x2c)) throw unexpected(scan)
    skipSpace(scan)
  }
  if (!sorted) sortMembers(members)
  let text = '{'
  for (const { quoted, value } of members) {
    if (value !== undefined) text += text.length === 1 ? `${quoted}:${value}` : `,${quoted}:${value}`
  }
  return text + '}'
}

function readMember(scan: Scan, depth: number, omit: ReadonlyMap<string, Omit> | undefined): Member {
  if (scan.text.charCodeAt(scan.at) !== 0x22) throw unexpected(scan)
  const source = readString(scan)
  const quoted = requote(source)
  const name = source.includes('\\') ? (JSON.parse(quoted) as string) : source.slice(1, -1)
  skipSpace(scan)
  if (!take(scan, 0x3a)) throw unexpected(scan)
  skipSpace(scan)
  const below = omit?.get(name)
  // An ignored member is read, too, so that it cannot hide malformed JSON.
  const value = readValue(scan, depth + 1, below)
  return { name, quoted, value: below === 'omitted' ? undefined : value }
}

/** Sorts by UTF-16 units, as RFC 8785 requires. Equal names then stand next to each other. */
function sortMembers(members: Member[]): void {
  members.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0))
  for (let i = 1; i < members.length; i++) {
    if (members[i]?.name === members[i - 1]?.name) throw invalid('The JSON body names a member of an object twice')
  }
}

/** Returns the string's source text with its quotes. Escapes are skipped here, and checked by `requote`. */
function readString(scan: Scan): string {
  const { text, at: start } = scan
  for (let i = start + 1; i < text.length; i++) {
    const unit = text.charCodeAt(i)
    if (unit === 0x22) {
      scan.at = i + 1
      return text.slice(start, scan.at)
    }
    if (unit < 0x20) break
    if (unit === 0x5c) i += 1
  }
  throw invalid(`The JSON body has a string that does not end, at character ${start}`)
}

/** Text without escapes is already canonical. It was valid UTF-8, so it has no lone surrogates. */
function requote(source: string): string {
  if (!source.includes('\\')) return source
  try {
    return JSON.stringify(JSON.parse(source) as string)
  } catch (cause) {
    throw invalid('The JSON body has a string with an unknown escape', cause)
  }
}

function readWord(scan: Scan, word: string): string {
  if (!scan.text.startsWith(word, scan.at)) throw unexpected(scan)
  scan.at += word.length
  return word
}

function readNumber(scan: Scan): string {
  const start = scan.at
  take(scan, 0x2d)
  const leadingZero = scan.text.charCodeAt(scan.at) === 0x30
  const whole = readDigits(scan)
  if (leadingZero && whole > 1) throw unexpected(scan)
  let plain = whole < 16
  if (take(scan, 0x2e)) {
    readDigits(scan)
    plain = false
  }
  if (take(scan, 0x65) || take(scan, 0x45)) {
    if (!take(scan, 0x2b)) take(scan, 0x2d)
    readDigits(scan)
    plain = false
  }
  const source = scan.text.slice(start, scan.at)
  return plain && source !== '-0' ? source : canonicalDecimal(source)
}

/** Reads at least one digit. Returns how many there were. */
function readDigits(scan: Scan): number {
  const start = scan.at
  for (let unit = scan.text.charCodeAt(scan.at); unit >= 0x30 && unit <= 0x39; unit = scan.text.charCodeAt(scan.at)) {
    scan.at += 1
  }
  if (scan.at === start) throw unexpected(scan)
  return scan.at - start
}

/** Skips the opening bracket. */
function enter(scan: Scan, depth: number): void {
  if (depth >= JSON_DEPTH_MAX) throw invalid(`The JSON body is nested over ${JSON_DEPTH_MAX} levels deep`)
  scan.at += 1
  skipSpace(scan)
}

function take(scan: Scan, unit: number): boolean {
  if (scan.text.charCodeAt(scan.at) !== unit) return false
  scan.at += 1
  return true
}

function skipSpace(scan: Scan): void {
  for (let unit = scan.text.charCodeAt(scan.at); ; unit = scan.text.charCodeAt(scan.at)) {
    if (unit !== 0x20 && unit !== 0x0a && unit !== 0x0d && unit !== 0x09) return
    scan.at += 1
  }
}

function unexpected(scan: Scan): Error {
  const what = scan.at < scan.text.length ? `is not JSON at character ${scan.at}` : 'ends too early'
  return invalid(`The JSON body ${what}`)
}

function invalid(detail: string, cause?: unknown): Error {
  return onceError('ONCE_BODY_INVALID', { detail, cause })
}
