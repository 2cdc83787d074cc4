import { expect, it } from 'vitest'
import { toolKey } from './key.ts'
import type { ToolCall } from './types.ts'

const call = (meta: Record<string, unknown>, args: unknown = { b: 1, a: [2] }, tool = 'charge'): ToolCall => ({
  tool,
  args,
  extra: { _meta: meta },
})
const conversation = 'effectively-once/conversation'
const step = 'effectively-once/step'

it('takes the key that the client sent', () => {
  expect(toolKey(call({ 'effectively-once/key': 'k', [conversation]: 'c' }))).toBe('k')
})

it('derives the same key for the same arguments in any order, in every version', () => {
  const fixed = 'c7385cb6-87a6-8836-9311-52f1b2a329db'
  expect(toolKey(call({ [conversation]: 'c', [step]: 1 }))).toBe(fixed)
  expect(toolKey(call({ [conversation]: 'c', [step]: '1' }, { a: [2], b: 1 }))).toBe(fixed)
})

it('derives another key for another tool, conversation, step or argument', () => {
  const keys = [
    toolKey(call({ [conversation]: 'c' })),
    toolKey(call({ [conversation]: 'c', [step]: 1 })),
    toolKey(call({ [conversation]: 'c', [step]: '' })),
    toolKey(call({ [conversation]: 'c', [step]: '-' })),
    toolKey(call({ [conversation]: 'd' })),
    toolKey(call({ [conversation]: 'c' }, { b: 2, a: [2] })),
    toolKey(call({ [conversation]: 'c' }, null)),
    toolKey(call({ [conversation]: 'c' }, null, 'refund')),
  ]
  expect(new Set(keys).size).toBe(keys.length)
})

it('lets the server name conversation, step and the arguments that matter', () => {
  const parts = { conversation: 'c', step: 2, args: 'order-1' }
  expect(toolKey(call({}, { memo: 'a' }), parts)).toBe(toolKey(call({}, { memo: 'b' }), parts))
  expect(toolKey(call({}), { args: undefined, conversation: 'c' })).not.toBe(toolKey(call({}), { conversation: 'c' }))
})

it('has no key without a conversation, and refuses parts of the wrong type', () => {
  expect(toolKey(call({}))).toBeUndefined()
  expect(toolKey({ tool: 't', args: {}, extra: {} })).toBeUndefined()
  expect(toolKey(call({ [conversation]: '' }))).toBeUndefined()
  for (const wrong of [{ [conversation]: 1 }, { [conversation]: 'c', [step]: 1.5 }, { 'effectively-once/key': null }])
    expect(() => toolKey(call(wrong))).toThrow('ONCE_KEY_INVALID')
})
