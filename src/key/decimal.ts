/** Between these decimal exponents, ECMAScript writes a number without an exponent. */
const PLAIN_MAX = 21
const PLAIN_MIN = -6
/** Exponents with more digits are not computed. */
const EXPONENT_DIGITS_MAX = 15

const ZERO = 0x30

/**
 * One spelling per decimal value: `1`, `1.0`, `1e0` and `10e-1` are `1`, and `-0` is `0`. No double is involved, so
 * 9007199254740993 differs from 9007199254740992, and 0.1 from 0.1000000000000000055. The spelling is ECMAScript's: if
 * a double can hold the number exactly, the text is that of `String(number)`. So a body read from its bytes and the
 * same body after a parser have the same fingerprint. Numbers with extreme exponents keep their source text, after a
 * mark that no other number starts with.
 */
export function canonicalDecimal(source: string): string {
  const negative = source.startsWith('-')
  const mantissaStart = negative ? 1 : 0
  const exponentAt = exponentStart(source)
  const mantissa = source.slice(mantissaStart, exponentAt)
  const point = mantissa.indexOf('.')
  const whole = point === -1 ? mantissa.length : point
  const all = point === -1 ? mantissa : mantissa.slice(0, point) + mantissa.slice(point + 1)
  const first = skipZeros(all)
  if (first === all.length) return '0'
  let last = all.length
  while (all.charCodeAt(last - 1) === ZERO) last--
  const exponent = exponentAt === source.length ? 0 : readExponent(source.slice(exponentAt + 1))
  if (exponent === undefined) return `#${source}`
  return (negative ? '-' : '') + spell(all.slice(first, last), whole - first + exponent)
}

/** Number::toString of ECMA-262. The decimal point comes before the digit at `point`. */
function spell(digits: string, point: number): string {
  const count = digits.length
  if (count <= point && point <= PLAIN_MAX) return digits + '0'.repeat(point - count)
  if (point > 0 && point <= PLAIN_MAX) return `${digits.slice(0, point)}.${digits.slice(point)}`
  if (point > PLAIN_MIN && point <= 0) return `0.${'0'.repeat(-point)}${digits}`
  const exponent = point - 1
  const fraction = count === 1 ? '' : `.${digits.slice(1)}`
  return `${digits.charAt(0)}${fraction}e${exponent < 0 ? '-' : '+'}${Math.abs(exponent)}`
}

function exponentStart(source: string): number {
  for (let i = 0; i < source.length; i++) {
    if ((source.charCodeAt(i) | 0x20) === 0x65) return i
  }
  return source.length
}

function readExponent(text: string): number | undefined {
  const signed = text.startsWith('-') || text.startsWith('+')
  const digits = text.slice((signed ? 1 : 0) + skipZeros(signed ? text.slice(1) : text))
  if (digits.length > EXPONENT_DIGITS_MAX) return undefined
  return (text.startsWith('-') ? -1 : 1) * Number(digits)
}

function skipZeros(digits: string): number {
  let at = 0
  while (at < digits.length && digits.charCodeAt(at) === ZERO) at++
  return at
}
