import { describe, expect, it } from 'vitest'
import { answer, PAY, post, scripted, VirtualTime } from '../../test/client/support/scripted.ts'
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

describe('a press while another one runs', () => {
  // Long enough for the second press to join on a busy machine.
  const late = (status: number) => (): Promise<Response> =>
    new Promise((resolve) => setTimeout(() => resolve(answer(status)), 400))
  const form = (amount: string): RequestInit => {
    const body = new FormData()
    body.set('amount', amount)
    return { method: 'POST', body }
  }
  const urls = new URLSearchParams('amount=500')
  const kinds = (type: string): RequestInit => ({ ...post(500), headers: new Headers({ 'content-type': type }) })

  it.each([
    ['body', PAY, post({ amount: 500 }), PAY, post({ amount: 700 })],
    ['url', PAY, post(), `${PAY}/8`, post()],
    ['url as a URL', new URL(PAY), post(), new URL(`${PAY}/8`), post()],
    ['method', PAY, post(), PAY, { ...post(), method: 'PUT' }],
    ['content type', PAY, kinds('application/json'), PAY, kinds('text/plain')],
    ['form', PAY, form('500'), PAY, form('700')],
  ])('with another %s is refused, and the first one is sent', async (_, url, init, otherUrl, otherInit) => {
    const { client, sent } = scripted([late(201)], { timeout: '1h', deadline: '2h' }, new VirtualTime(1_000))
    const render = component(client)
    render()
    await turn()
    const first = render().run(url, init)
    await expect.poll(() => sent.length, { interval: 1 }).toBe(1)
    await render().run(otherUrl, otherInit)
    expect(render().error?.code).toBe('ONCE_MISMATCH')
    await first
    expect([render().state, sent.length]).toEqual(['done', 1])
  })

  it('with a body that was changed in place is refused', async () => {
    const { client, sent } = scripted([late(201)], { timeout: '1h', deadline: '2h' }, new VirtualTime(1_000))
    const render = component(client)
    const init = { method: 'POST', body: urls }
    const first = render().run(PAY, init)
    await expect.poll(() => sent.length, { interval: 1 }).toBe(1)
    urls.set('amount', '700')
    await render().run(PAY, init)
    expect([render().error?.code, sent.length]).toEqual(['ONCE_MISMATCH', 1])
    await first
  })

  it.each([
    ['text', () => post()],
    ['a form', () => form('5')],
    ['no body', () => ({ method: 'POST' })],
  ])('with the same %s joins it, so a declined payment is tried once', async (_, init) => {
    const { client, sent } = scripted([late(402)], { timeout: '1h', deadline: '2h' }, new VirtualTime(1_000))
    const render = component(client)
    render()
    await turn()
    await Promise.all([render().run(PAY, init()), render().run(new URL(PAY), init())])
    const { state, response, error } = render()
    expect([state, response?.status, error, sent.length]).toEqual(['none', 402, undefined, 1])
  })

  it('with another body is refused while a call of an earlier page is resumed', async () => {
    const storage = memoryStorage()
    const before = scripted([lost], { storage, retry: { attempts: 1 } })
    await before.client.fetch(PAY, post({ amount: 500 }), { name: 'pay 7' }).catch(() => {})
    const { client, sent } = scripted([late(201)], { storage, timeout: '1h', deadline: '2h' }, new VirtualTime(1_000))
    const render = component(client)
    render()
    await expect.poll(() => sent.length, { interval: 1 }).toBe(1)
    await render().run(PAY, post({ amount: 700 }))
    expect([render().error?.code, sent.length]).toEqual(['ONCE_MISMATCH', 1])
  })
})
