import { expect, it } from 'vitest'
import { effectivelyOnce, event, inProcessSink } from '../index.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import { shieldedTracing } from './shielded-tracing.ts'
import type { Span, Tracing } from './tracing.ts'

const thrown = (): never => {
  throw new Error('the tracer is broken')
}
const events = { made: event<{ id: string }>(({ id }) => id) }

/** A span whose methods throw, and whose `run` throws before or after the work. */
function broken(when: 'before' | 'after'): Span {
  const run = <T>(work: () => T): T => {
    if (when === 'after') work()
    return thrown()
  }
  const part = (): Span => broken(when)
  return { isRecording: true, trace: undefined, run, part, end: thrown }
}

it.each<[string, Tracing]>([
  ['throws when a span starts', { start: thrown }],
  ['throws before the work', { start: () => broken('before') }],
  ['throws after the work', { start: () => broken('after') }],
])('a tracer that %s neither fails nor repeats an operation, a call of a sink, or a message', async (_, tracing) => {
  const once = effectivelyOnce({
    namespace: 'traced',
    store: memoryStore(),
    events,
    guard: 'off',
    sweep: false,
    tracing,
  })
  let runs = 0
  const made = await once.run({ scope: 's', key: 'k', input: null }, async ({ publish }) => {
    runs++
    await publish('made', { id: 'a' })
    return 'done'
  })
  expect([made, runs]).toEqual(['done', 1])
  let sent = 0
  expect(await once.relay({ to: inProcessSink(() => void sent++, { name: 'traced' }) }).drain()).toBe(1)
  const consumer = once.consumer('traced', { from: once.outbox }, { made: async () => {} })
  expect(await consumer.drain()).toBe(1)
  expect(sent).toBe(1)
  await once.close()
})

it('a span that could not start records nothing', () => {
  const of = { kind: 'operation' } as never
  expect(shieldedTracing({ start: thrown }).start(of, undefined).isRecording).toBe(false)
  expect(shieldedTracing({ start: () => broken('before') }).start(of, undefined).isRecording).toBe(true)
})

it('an error of the work stays the error of the work', () => {
  const span = shieldedTracing({ start: () => broken('before') }).start({ kind: 'operation' } as never, undefined)
  const error = new Error('of the work')
  expect(() =>
    span.run(() => {
      throw error
    }),
  ).toThrow(error)
})
