import { expect, it } from 'vitest'
import { ERROR_LINE_LENGTH_MAX } from '../limits.ts'
import { describeError } from './describe-error.ts'

const causesOf = (error: unknown): Record<string, unknown>[] =>
  JSON.parse(describeError(error).causes) as Record<string, unknown>[]

it('leaves out a stack that a program has made something else of', () => {
  expect(causesOf(new Error('plain'))[0]).toHaveProperty('stack')
  const odd = Object.assign(new Error('odd'), { stack: 7 })
  expect(causesOf(odd)).toEqual([{ name: 'Error', message: 'odd' }])
})

it('cuts a long line before a character of two halves, never inside it', () => {
  const start = 'Error: '
  const filled = 'x'.repeat(ERROR_LINE_LENGTH_MAX - start.length - 2)
  const { line } = describeError(new Error(`${filled}🐢 and more`))
  expect(line).toBe(`${start}${filled}…`)
  const shorter = describeError(new Error(`${filled.slice(1)}🐢 and more`))
  expect(shorter.line).toBe(`${start}${filled.slice(1)}🐢…`)
})

it('keeps the causes, outermost first, and ends a circle of them', () => {
  const inner = new Error('inner')
  const outer = new Error('outer', { cause: inner })
  inner.cause = outer
  expect(causesOf(outer).map(({ message }) => message)).toEqual(['outer', 'inner'])
})
