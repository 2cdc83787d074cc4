import { onceError } from '../errors.ts'
import { latin1 } from './latin1.ts'

export interface Part {
  /** Header lines, names in lower case, sorted by name. */
  readonly headers: readonly string[]
  readonly bytes: Uint8Array
}

/** The limit of RFC 2046. A short boundary also keeps the search linear. */
const BOUNDARY_MAX = 70

const TAB = 0x09
const LF = 0x0a
const CR = 0x0d
const SPACE = 0x20
const DASH = 0x2d

/**
 * The parts of a multipart body, without the boundary, because clients choose a new boundary for each attempt. The
 * headers and bytes of every part count. Preamble and epilogue are ignored, as RFC 2046 requires.
 */
export function parseMultipart(body: Uint8Array, boundary: string | undefined): readonly Part[] {
  if (boundary === undefined || boundary === '' || boundary.length > BOUNDARY_MAX) {
    throw invalid(`A multipart body needs a boundary of 1 to ${BOUNDARY_MAX} characters`)
  }
  const delimiter = new TextEncoder().encode(`\r\n--${boundary}`)
  const parts: Part[] = []
  // The delimiter includes the line break before it. The first delimiter may stand at the start without it.
  let next = findDelimiter(body, delimiter, -2)
  while (!next.last) {
    const { end: start } = next
    next = findDelimiter(body, delimiter, start)
    parts.push(readPart(body.subarray(start, next.start)))
  }
  return parts
}

interface Delimiter {
  readonly start: number
  /** Where the next part begins. */
  readonly end: number
  readonly last: boolean
}

/**
 * Finds the first delimiter from `from` on. A carriage return occurs only at its start, so no position is compared
 * twice, and the time is linear. `from` is -2 at the start of the body, which has no line break.
 */
function findDelimiter(body: Uint8Array, delimiter: Uint8Array, from: number): Delimiter {
  for (let start = from; start < body.length; start++) {
    if (start >= 0 && body[start] !== CR) continue
    if (start === -1 || !matches(body, delimiter, start)) continue
    let end = start + delimiter.length
    if (body[end] === DASH && body[end + 1] === DASH) return { start, end, last: true }
    while (body[end] === SPACE || body[end] === TAB) end++
    // Otherwise this is a line of content that begins like the boundary.
    if (body[end] === CR && body[end + 1] === LF) return { start, end: end + 2, last: false }
  }
  throw invalid('The multipart body does not end with its boundary')
}

function matches(body: Uint8Array, delimiter: Uint8Array, at: number): boolean {
  for (let i = at < 0 ? -at : 0; i < delimiter.length; i++) {
    if (body[at + i] !== delimiter[i]) return false
  }
  return true
}

/** Reads a part: headers, a blank line, bytes. A part may begin with the blank line, and may end before it. */
function readPart(part: Uint8Array): Part {
  if (part.length === 0) return { headers: [], bytes: part }
  if (part[0] === CR && part[1] === LF) return { headers: [], bytes: part.subarray(2) }
  const end = findBlankLine(part)
  const lines: string[] = []
  for (const line of latin1(part.subarray(0, end)).split('\r\n')) {
    const folded = line.startsWith(' ') || line.startsWith('\t')
    const before = folded ? lines.pop() : ''
    if (before === undefined) throw invalid('A part of the multipart body starts with a folded header line')
    lines.push(folded ? `${before} ${line.trim()}` : readHeader(line))
  }
  return { headers: lines.sort(), bytes: part.subarray(end + 4) }
}

function readHeader(line: string): string {
  const colon = line.indexOf(':')
  if (colon < 1) throw invalid('A part of the multipart body has a header line without a name')
  return `${line.slice(0, colon).trim().toLowerCase()}:${line.slice(colon + 1).trim()}`
}

function findBlankLine(part: Uint8Array): number {
  for (let i = 0; i + 3 < part.length; i++) {
    if (part[i] === CR && part[i + 1] === LF && part[i + 2] === CR && part[i + 3] === LF) return i
  }
  return part.length
}

function invalid(detail: string): Error {
  return onceError('ONCE_BODY_INVALID', { detail })
}
