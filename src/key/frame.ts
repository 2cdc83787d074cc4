import { isWellFormed } from '../platform/storable.ts'

/**
 * Length-prefixed text: fields in a row stay apart whatever they hold, so ('a', 'bc') and ('ab', 'c') never hash
 * alike. Text with lone surrogates would lose them on the way to UTF-8 and is spelled out unit by unit instead; the
 * leading `u` keeps that spelling apart from every ordinary field, which starts with a digit.
 */
export function frame(text: string): string {
  if (isWellFormed(text)) return `${text.length}:${text}`
  let units = ''
  for (let i = 0; i < text.length; i++) units += text.charCodeAt(i).toString(16).padStart(4, '0')
  return `u${text.length}:${units}`
}
