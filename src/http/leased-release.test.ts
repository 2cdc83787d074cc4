import { expect, it } from 'vitest'
import { effectivelyOnce } from '../index.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import { idempotency } from './fetch.ts'

it.each(['fails', 'hangs'])('a release that %s does not replace the answer of a leased route', async (how) => {
  const store = memoryStore()
  const release = (): Promise<never> =>
    how === 'fails' ? Promise.reject(new Error('the store is gone')) : new Promise(() => {})
  const broken = new Proxy(store, {
    get: (of, name) => (name === 'leases' ? { ...of.leases, release } : Reflect.get(of, name, of)),
  })
  const once = effectivelyOnce({ namespace: 'shop', store: broken, guard: 'off', sweep: false })
  const route = idempotency(once, { scope: 'global', onError: () => {} })
  // The type asks for `commit`. A refusal without it is an answer, too.
  const refused = async (): Promise<never> => new Response('the provider was called', { status: 502 }) as never
  const handler = route({ lease: '5s' }, refused)
  const request = new Request('http://shop.test/pay', {
    method: 'POST',
    headers: { 'idempotency-key': 'k' },
    body: '{}',
  })
  const answer = await handler(request)
  expect([answer.status, await answer.text()]).toEqual([502, 'the provider was called'])
})
