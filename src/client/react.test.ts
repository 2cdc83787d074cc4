import { expect, it } from 'vitest'
import { answer, PAY, post } from '../../test/client/support/scripted.ts'
import { idempotentClient } from './client.ts'
import { memoryStorage } from './memory.ts'
import { type HookedCall, idempotentCallHook, type ReactLike } from './react.ts'
import type { ClientOptions } from './types.ts'

/** The hook in one component that never changes its name. The component shows whatever was set last. */
async function shown(options: ClientOptions): Promise<() => HookedCall> {
  let states: unknown[] = []
  const react: ReactLike = {
    useCallback: (callback) => callback,
    useEffect: (effect) => void (states.length === 0 && queueMicrotask(() => void effect())),
    useState<S>(initial: S) {
      const state = (states[0] ?? initial) as S
      const set = (next: S | ((last: S) => S)): void => {
        states = [typeof next === 'function' ? (next as (last: S) => S)((states[0] ?? initial) as S) : next]
      }
      return [state, set]
    },
  }
  const useIdempotentCall = idempotentCallHook(react, idempotentClient({ onError: () => {}, ...options }))
  useIdempotentCall('pay 7')
  const show = (): HookedCall => useIdempotentCall('pay 7')
  await expect.poll(() => show().state).toBe('none')
  return show
}

it('a press that fails is shown, and leaves no rejected promise behind', async () => {
  const unhandled: unknown[] = []
  const note = (cause: unknown): unknown => unhandled.push(cause)
  process.on('unhandledRejection', note)
  const show = await shown({ fetch: () => Promise.reject(new TypeError('fetch failed')), retry: { attempts: 1 } })
  await show().run(PAY, post())
  expect([show().state, show().error?.code]).toEqual(['pending', 'ONCE_CALL_PENDING'])
  await new Promise((resolve) => setTimeout(resolve, 10))
  process.off('unhandledRejection', note)
  expect(unhandled).toEqual([])
})

it('a storage that fails during a press hides no answer, and the next press is possible', async () => {
  const storage = memoryStorage()
  let isAway = false
  const list = (): Promise<readonly string[]> => (isAway ? Promise.reject(new Error('away')) : storage.list())
  const add = (...call: [string, string]): Promise<string> =>
    isAway ? Promise.reject(new Error('away')) : storage.add(...call)
  const statuses = [402, 201]
  const fetch = async (): Promise<Response> => {
    isAway = true
    return answer(statuses.shift() ?? 201)
  }
  const show = await shown({ fetch, storage: { ...storage, add, list } })
  await show().run(PAY, post())
  expect([show().state, show().response?.status, show().error]).toEqual(['none', 402, undefined])
  await show().run(PAY, post())
  expect([show().state, show().error?.code]).toEqual(['none', 'ONCE_STORAGE_FAILED'])
  isAway = false
  await show().run(PAY, post())
  expect([show().state, show().response?.status, show().error]).toEqual(['done', 201, undefined])
})
