import { expect, it } from 'vitest'
import { answer, PAY, post, scripted } from '../../test/client/support/scripted.ts'
import { memoryStorage } from './memory.ts'
import { type HookedCall, idempotentCallHook, type ReactLike } from './react.ts'
import type { CallStorage, IdempotentClient } from './types.ts'

/** As much of React as a hook in one component needs. */
function component(client: IdempotentClient) {
  const cells: unknown[] = []
  let at = 0
  let effects: (() => unknown)[] = []
  const react: ReactLike = {
    useCallback: (callback) => callback,
    useEffect(effect, deps) {
      const last = cells[at] as readonly unknown[] | undefined
      if (!last || deps.some((dep, i) => dep !== last[i])) effects.push(effect)
      cells[at++] = deps
    },
    useState<S>(initial: S): [S, (next: S | ((last: S) => S)) => void] {
      const own = at++
      if (!(own in cells)) cells[own] = initial
      const set = (next: S | ((last: S) => S)): void => {
        cells[own] = typeof next === 'function' ? (next as (last: S) => S)(cells[own] as S) : next
      }
      return [cells[own] as S, set]
    },
  }
  const useIdempotentCall = idempotentCallHook(react, client)
  return (): HookedCall => {
    at = 0
    const call = useIdempotentCall('pay 7')
    for (const effect of effects.splice(0)) effect()
    effects = []
    return call
  }
}

const lost = new TypeError('fetch failed')
const turn = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 20))

it('a call that fails is shown, and leaves no rejection that nobody handles', async () => {
  const unhandled: unknown[] = []
  const note = (reason: unknown): void => void unhandled.push(reason)
  process.on('unhandledRejection', note)
  const render = component(scripted([lost], { retry: { attempts: 1 } }).client)
  await render().run(PAY, post())
  await turn()
  process.off('unhandledRejection', note)
  const { state, error } = render()
  expect([state, error?.code, unhandled]).toEqual(['pending', 'ONCE_CALL_PENDING', []])
})

it.each([
  ['before anything is sent', 'add', answer(201), 'none', 'ONCE_STORAGE_FAILED', undefined],
  ['after the answer', 'fetch', answer(201), 'done', undefined, 201],
  ['after a refusal', 'fetch', answer(402), 'none', undefined, 402],
  ['after a lost answer', 'fetch', lost, 'pending', 'ONCE_CALL_PENDING', undefined],
] as const)('a storage that fails %s does not show "pending" for ever', async (_, from, step, state, code, status) => {
  let isDown = false
  const memory = memoryStorage()
  const up = (): void => {
    if (isDown) throw new Error('disk full')
  }
  const storage: CallStorage = {
    add: async (...of) => (up(), memory.add(...of)),
    swap: async (...of) => (up(), memory.swap(...of)),
    list: async () => (up(), memory.list()),
  }
  const answers = (): Response => {
    isDown = true
    if (step instanceof Error) throw step
    return step
  }
  const { client } = scripted([answers], { storage, retry: { attempts: 1 }, onError: () => {} })
  const render = component(client)
  render()
  await turn()
  isDown = from === 'add'
  await render().run(PAY, post())
  const shown = render()
  expect([shown.state, shown.error?.code, shown.response?.status]).toEqual([state, code, status])
})
