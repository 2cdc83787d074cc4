import { expect, it } from 'vitest'
import { REDRIVE_WHY_LENGTH_MAX } from '../limits.ts'
import { checkAccountable, type Accountable } from './accountable.ts'

it('a change says who makes it, and why', () => {
  expect(checkAccountable({ by: 'ada', why: 'the card is fixed', more: 1 } as Accountable)).toEqual({
    by: 'ada',
    why: 'the card is fixed',
  })
})

it.each([
  [undefined, 'by must say who does it'],
  [{ why: 'x' }, 'by must say who does it'],
  [{ by: ' ', why: 'x' }, 'by must say who does it'],
  [{ by: 'ada' }, 'why must say the reason'],
  [{ by: 'ada', why: 7 }, 'why must say the reason'],
  [{ by: 'ada', why: 'a\0b' }, 'why must say the reason'],
  [{ by: 'ada', why: 'x'.repeat(REDRIVE_WHY_LENGTH_MAX + 1) }, `in at most ${REDRIVE_WHY_LENGTH_MAX} characters`],
])('%j is refused', (given, text) => {
  expect(() => checkAccountable(given as Accountable)).toThrow(text)
})
