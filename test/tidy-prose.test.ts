import { describe, expect, it } from 'vitest'
import { publicProse, sentencesOf, wordsIn } from './support/prose.ts'

const MAX_WORDS = 30
/** Names that were replaced by what the thing does. */
const REPLACED = /\b(?:Heart|Seat|Sight|Keeper|Bell|Earlies|PgManner|PgAside|PgLeft|leash|Breath|Patience)\b/

const prose = publicProse()
const sentences = prose.flatMap(({ where, text }) => sentencesOf(text).map((sentence) => ({ where, sentence })))

describe('the docs, the public JSDoc and the error texts', () => {
  it('are all found', () => {
    expect(prose.length).toBeGreaterThan(100)
    expect(sentences.length).toBeGreaterThan(2_000)
  })

  it(`have no sentence of more than ${MAX_WORDS} words`, () => {
    const long = sentences.filter(({ sentence }) => wordsIn(sentence) > MAX_WORDS)
    expect(long).toEqual([])
  })

  it('have no sentence that begins with "Of"', () => {
    expect(sentences.filter(({ sentence }) => sentence.startsWith('Of '))).toEqual([])
  })

  it('use no replaced name', () => {
    const used = prose.flatMap(({ where, text }) => text.split('\n').map((line) => ({ where, line })))
    expect(used.filter(({ line }) => REPLACED.test(line))).toEqual([])
  })

  it('are counted as people count them', () => {
    const text =
      '# A heading\n\nOne `code span` here. [Two](two.md) – wrapped\nlines?\n\n- Three.\n- Four\n\n| five | six |'
    const found = sentencesOf(text)
    expect(found).toEqual(['One code here.', 'Two – wrapped lines?', 'Three.', 'Four', 'five', 'six'])
    expect(found.map(wordsIn)).toEqual([3, 3, 1, 1, 1, 1])
  })
})
