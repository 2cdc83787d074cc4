import { expect, it } from 'vitest'
import { effectivelyOnce } from '../index.ts'
import { memoryStore } from '../store/memory/memory-store.ts'

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
