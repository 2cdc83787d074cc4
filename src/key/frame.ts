import { isWellFormed } from '../platform/storable.ts'

/**
 * Length-prefixed text, so that consecutive fields stay separate: ('a', 'bc') and ('ab', 'c') have different hashes.
 * Lone surrogates would be lost in UTF-8, so such a text is written unit by unit. Its leading `u` differs from ordinary
 * fields, which start with a digit.
 */
export function frame(text: string): string {
  if (isWellFormed(text)) return `${text.length}:${text}`
  let units = ''
  for (let i = 0; i < text.length; i++) units += text.charCodeAt(i).toString(16).padStart(4, '0')
  return `u${text.length}:${units}`
}
