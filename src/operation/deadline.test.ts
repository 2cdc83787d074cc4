import { expect, it } from 'vitest'
import { effectivelyOnce } from '../index.ts'
import { systemClock } from '../platform/clock.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import { LazySignal, TimeLimit, withinMs } from './deadline.ts'
import { Enclosing } from './enclosing.ts'
import { RunningHandlers } from './running.ts'

it('passes although the process was held up, and no timer told', async () => {
  const once = effectivelyOnce({
    namespace: 'late',
    store: memoryStore(),
    deadline: '100ms',
    guard: 'off',
    sweep: false,
  })
  const work = async (): Promise<string> => {
    await Promise.resolve()
    for (const until = performance.now() + 200; performance.now() < until;);
    return 'late'
  }
  const ask = { scope: 's', key: 'k', input: 1 }
  await expect(once.run(ask, work)).rejects.toMatchObject({ code: 'ONCE_DEADLINE' })
  expect(await once.run(ask, async () => 'in time')).toBe('in time')
  await once.close()
})

it.each([
  ['commits', 'committed'],
  ['does not commit', 'ONCE_CLOSED'],
])('a close does not decide while the database does, which %s', async (how, told) => {
  const running = new RunningHandlers()
  const enclosing = new Enclosing({ id: 'a', route: '', outer: undefined, transaction: null, publisher: null })
  const limit = new TimeLimit(systemClock, 10_000, new LazySignal(), enclosing, running)
  const run = limit.run(async () => {
    const resume = limit.pause()
    running.cut()
    await Promise.resolve()
    if (how === 'commits') limit.conclude('committed')
    resume?.()
    return 'went on'
  })
  expect(await run.catch((error: { code?: unknown }) => error.code)).toBe(told)
})

it('work that takes too long is told', async () => {
  const never = new Promise<never>(() => {})
  await expect(withinMs(systemClock, 1, never)).rejects.toMatchObject({ code: 'ONCE_DEADLINE' })
})
