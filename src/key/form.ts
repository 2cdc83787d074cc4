interface Pair {
  readonly name: string
  readonly value: string
}

/**
 * One spelling per query string or urlencoded form. Pairs are sorted by name. The order within a name is kept, because
 * it is the order of a list. Every byte that is not unreserved is written as `%XX`. As in the WHATWG URL standard, `+`
 * is a space, `a` is `a=`, empty pairs are ignored, and a `%` that escapes nothing stands for itself. But bytes stay
 * bytes: decoding as UTF-8 would turn all invalid bytes into one character, and two requests into one. A character
 * below U+0100 counts as one byte, because servers pass a raw URL in that form.
 */
export function canonicalForm(text: string): string {
  if (text === '') return ''
  const pairs: Pair[] = []
  let sorted = true
  for (let start = text.startsWith('?') ? 1 : 0; start <= text.length;) {
    let end = text.indexOf('&', start)
    if (end === -1) end = text.length
    if (end > start) {
      const pair = readPair(text.slice(start, end))
      const before = pairs.at(-1)
      if (before !== undefined && before.name > pair.name) sorted = false
      pairs.push(pair)
    }
    start = end + 1
  }
  if (!sorted) pairs.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0))
  return pairs.map(({ name, value }) => `${name}=${value}`).join('&')
}

function readPair(pair: string): Pair {
  const equals = pair.indexOf('=')
  if (equals === -1) return { name: respell(pair), value: '' }
  return { name: respell(pair.slice(0, equals)), value: respell(pair.slice(equals + 1)) }
}

function respell(text: string): string {
  let spelled = ''
  let from = 0
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i)
    if (isUnreserved(unit)) continue
    const escape = unit === 0x25 ? readEscape(text, i) : undefined
    spelled += text.slice(from, i) + (unit === 0x2b ? '%20' : encode(escape ?? unit))
    if (escape !== undefined) i += 2
    from = i + 1
  }
  return from === 0 ? text : spelled + text.slice(from)
}

/** The byte of a `%XX` at `at`. Undefined: there is no such escape. */
function readEscape(text: string, at: number): number | undefined {
  const high = hexDigit(text.charCodeAt(at + 1))
  const low = hexDigit(text.charCodeAt(at + 2))
  return high < 0 || low < 0 ? undefined : high * 16 + low
}

function encode(unit: number): string {
  // A character that is not a byte keeps all its digits after a mark: U+20AC is not a space and "AC".
  return ENCODED[unit] ?? `%u${unit.toString(16).padStart(4, '0')}`
}

/** RFC 3986: letters, digits, `-`, `.`, `_` and `~` mean the same with and without an escape. */
function isUnreserved(unit: number): boolean {
  if (unit >= 0x61) return unit <= 0x7a || unit === 0x7e
  if (unit >= 0x41) return unit <= 0x5a || unit === 0x5f
  return (unit >= 0x30 && unit <= 0x39) || unit === 0x2d || unit === 0x2e
}

function hexDigit(unit: number): number {
  if (unit >= 0x30 && unit <= 0x39) return unit - 0x30
  const lower = unit | 0x20
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1
}

/** One spelling for each byte. */
const ENCODED: readonly string[] = Array.from({ length: 256 }, (_, byte) =>
  isUnreserved(byte) ? String.fromCharCode(byte) : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`,
)
