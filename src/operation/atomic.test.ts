import { expect, it } from 'vitest'
import type { Answer } from '../lifecycle/answer.ts'
import { ANSWER_STORED_BYTES_MAX } from '../limits.ts'
import { capped } from './atomic.ts'

it('an answer is stored up to the limit, and past it only its head is', () => {
  const answer = (bytes: number): Answer => ({ status: 200, headers: [], body: Buffer.alloc(bytes), kept: true })
  const largest = answer(ANSWER_STORED_BYTES_MAX)
  expect(capped(largest)).toBe(largest)
  expect(capped(answer(ANSWER_STORED_BYTES_MAX + 1))).toEqual({ status: 200, headers: [], body: null, kept: false })
})
