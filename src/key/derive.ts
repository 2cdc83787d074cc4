import { DERIVED_KEY_LENGTH_MAX } from '../limits.ts'
import { invalid } from '../options.ts'
import { sha256Hex } from '../platform/sha256.ts'
import { frame } from './frame.ts'
import { uuid8Of } from './uuid.ts'

/** The name of an alphabet, or its characters: at least 16, all different. */
export type Alphabet = 'hex' | 'base62' | 'base64url' | 'uuid' | (string & {})

export interface DerivedKey {
  /** The operation's identity. */
  readonly id: string
  /**
   * The token of this life's first claim. A key that is used again after it was forgotten is another operation. Without
   * the life, it would get the old derived keys, and the provider would replay the old charge. Atomic operations have
   * no stored life and pass undefined, so their derived keys repeat after the key has expired.
   */
  readonly life: string | undefined
  readonly step: string
  /** The longest key that the provider accepts. The result is shorter if 256 bits need fewer characters. */
  readonly length?: number
  readonly alphabet?: Alphabet
}

const BITS_MIN = 128
const BITS_MAX = 256
const ALPHABET_MIN = 16
const UUID_LENGTH = 36
const DIGITS = '0123456789'
const UPPER = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'
const LOWER = 'abcdefghijklmnopqrstuvwxyz'
const ALPHABETS: ReadonlyMap<string, string> = new Map([
  ['hex', `${DIGITS}abcdef`],
  ['base62', DIGITS + UPPER + LOWER],
  ['base64url', `${UPPER + LOWER + DIGITS}-_`],
])

/**
 * The key for one step's outside call. It is the same in every attempt of one life. It differs in the next life, for
 * another step and for another operation. It reveals nothing about the client's key.
 */
export function deriveKey(of: DerivedKey): string {
  const { length = DERIVED_KEY_LENGTH_MAX, alphabet = 'hex' } = of
  if (of.step === '') throw invalid('A derived key needs the name of its step')
  const hex = sha256Hex(`eo:step:1;${frame(of.id)}${frameLife(of.life)}${frame(of.step)}`)
  if (alphabet === 'uuid') {
    // A valid UUID holds only 122 bits, so a provider that requires UUIDs cannot get 128.
    if (!(length >= UUID_LENGTH)) throw tooShort(length, alphabet)
    return uuid8Of(hex)
  }
  const characters = ALPHABETS.get(alphabet) ?? checkAlphabet(alphabet)
  const bitsEach = Math.log2(characters.length)
  if (!Number.isInteger(length) || length * bitsEach < BITS_MIN) throw tooShort(length, alphabet)
  const enough = Math.min(length, Math.ceil(BITS_MAX / bitsEach))
  return alphabet === 'hex' ? hex.slice(0, enough) : spell(hex, characters, enough)
}

/** The id of an event: the same in every attempt, and for every consumer. `ordinal` counts within the life. */
export function deriveEventId(of: { id: string; life: string | undefined; ordinal: number }): string {
  if (!Number.isSafeInteger(of.ordinal) || of.ordinal < 0) {
    throw invalid('The ordinal of an event is a whole number from 0')
  }
  return uuid8Of(sha256Hex(`eo:event:1;${frame(of.id)}${frameLife(of.life)}${of.ordinal}`))
}

/** `-` cannot start a framed text, so "no life" differs from every life. */
function frameLife(life: string | undefined): string {
  return life === undefined ? '-' : frame(life)
}

function spell(hex: string, characters: string, length: number): string {
  const base = BigInt(characters.length)
  let rest = BigInt(`0x${hex}`)
  let text = ''
  for (let i = 0; i < length; i++) {
    text += characters.charAt(Number(rest % base))
    rest /= base
  }
  return text
}

function checkAlphabet(characters: string): string {
  const distinct = new Set(characters)
  // Comparing characters with UTF-16 units also refuses characters outside the basic plane, which would be split.
  if (distinct.size !== characters.length || distinct.size < ALPHABET_MIN) {
    throw invalid(`An alphabet is 'hex', 'base62', 'base64url', 'uuid' or at least ${ALPHABET_MIN} distinct characters`)
  }
  return characters
}

function tooShort(length: number, alphabet: string): Error {
  return invalid(
    `A derived key of ${length} characters from the alphabet ${alphabet} keeps less than ${BITS_MIN} bits: raise keyLength`,
  )
}
